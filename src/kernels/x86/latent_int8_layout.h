// Where the parts of a task's scratch lie, for the AMX family of int8 latents.
// Called by: kernels/x86/latent_int8_*.cc only. Thread-safety: a value.
#ifndef MLA_KERNELS_X86_LATENT_INT8_LAYOUT_H_
#define MLA_KERNELS_X86_LATENT_INT8_LAYOUT_H_

#include "kernels/x86/latent_int8_amx.h"

namespace mla {

/// Groups of 16 heads. As with bf16 (latent_bf16_layout.h) heads beyond whole groups, if there are
/// at most 8, have both parts of their query in the lanes of one; their weights alike are rows of
/// one operand.
struct Int8AmxLayout {
  Int8AmxLayout(const LatentFormat& format, int64_t rows, int64_t heads, float* scratch)
      : rank((format.rank + kInt8Depth - 1) / kInt8Depth * kInt8Depth),
        steps(rank / kInt8Depth),
        rope_steps((format.rope + kBf16Pairs - 1) / kBf16Pairs),
        full(heads / kBf16Lanes),
        rest(heads % kBf16Lanes),
        groups(full + (rest > 0 ? 1 : 0)),
        shared(rest > 0 && rest <= kBf16Lanes / 2),
        parts(2 * groups - (shared ? 1 : 0)) {
    const int64_t all = rows * groups;
    // No pointers where only the size is asked for.
    const auto take = [&](int64_t count) {
      float* const part = scratch == nullptr ? nullptr : scratch + floats;
      floats += count;
      return part;
    };
    const auto bytes = [](float* part) { return reinterpret_cast<char*>(part); };
    const auto ints = [](float* part) { return reinterpret_cast<int32_t*>(part); };
    q = bytes(take(rows * parts * steps * kInt8TileBytes / 4));
    q_rope = take(rows * parts * rope_steps * kBf16TileFloats);
    q_scale = take(all * kBf16Lanes);
    s = take(all * kScoreFloats);
    p = bytes(take(all * kWeightBytes / 4));
    max = take(all * kBf16Lanes);
    sum = take(all * kBf16Lanes);
    best = take(all * kBf16Lanes);
    shrink = take(all * kBf16Lanes);
    factor = take(all * kBf16Lanes);
    acc = take(rows * heads * rank);
    sums = ints(take(2 * kRunRows * kBf16Lanes));
    rope_sums = take(2 * kRunRows * kBf16Lanes);
    out_sums = ints(take(kInt8PieceBlocks * 2 * kBf16Lanes * kBf16Lanes));
    rows_copy = bytes(take(kRunRows * CopyBytes() / 4));
    quads = bytes(take(kLatentTileRows / kInt8Depth * StepBytes() / 4));
    rope = take(kRunRows * rope_steps * kBf16Pairs);
    row_scale = take(kLatentTileRows);
  }

  static constexpr int64_t kScoreFloats = kLatentTileRows * kBf16Lanes;
  static constexpr int64_t kWeightBytes = 2 * kLatentTileRows * kBf16Lanes;
  static constexpr int64_t kRunRows = kInt8Blocks * kBf16Block;  // of one call of scores

  // Not multiples of a power of two, so that what is used together does not share a set of the
  // cache.
  static constexpr int64_t kQuadTileBytes = kInt8TileBytes + 64;
  int64_t CopyBytes() const { return rank + 64; }
  int64_t StepBytes() const { return rank / kBf16Lanes * kQuadTileBytes; }

  int64_t Group(int64_t row, int64_t group) const { return row * groups + group; }
  int64_t FirstPart(int64_t row, int64_t group) const { return row * parts + 2 * group; }
  char* Q(int64_t row, int64_t group) const {
    return q + FirstPart(row, group) * steps * kInt8TileBytes;
  }
  float* QRope(int64_t row, int64_t group) const {
    return q_rope + FirstPart(row, group) * rope_steps * kBf16TileFloats;
  }
  bool Shared(int64_t group) const { return shared && group == full; }
  int64_t Parts(int64_t group) const { return Shared(group) ? 1 : 2; }
  int64_t Heads(int64_t group) const { return group < full ? kBf16Lanes : rest; }
  /// Rows of one part of the weights.
  int64_t WeightRows(int64_t group) const { return Shared(group) ? rest : kBf16Lanes; }

  int64_t rank;   // rounded up to whole steps
  int64_t steps;  // of c_kv
  int64_t rope_steps;
  int64_t full, rest;             // whole groups per query row, heads beyond them
  int64_t groups;                 // per query row
  bool shared;                    // the last group has one part
  int64_t parts;                  // per query row
  char* q;                        // per row and group [steps, Parts(group), kInt8TileBytes]
  float* q_rope;                  // per row and group [rope_steps, Parts(group), kBf16TileFloats]
  float* q_scale;                 // [rows, groups, lanes], log2 units
  float* s;                       // [rows, groups, kLatentTileRows, lanes]
  char* p;                        // per row and group [2, WeightRows(group), kLatentTileRows]
  float *max, *sum;               // [rows, groups, lanes], max in log2 units
  float *best, *shrink, *factor;  // [rows, groups, lanes], of the tile
  float* acc;                     // per row and group [rank / lanes, heads, lanes]
  int32_t* sums;                  // as Int8Scores::sums
  float* rope_sums;               // as Int8Scores::rope_sums
  int32_t* out_sums;              // as Int8Output::sums
  char* rows_copy;                // [kRunRows] of CopyBytes(): c_kv of a run
  char* quads;       // [kLatentTileRows / kInt8Depth, rank / lanes] tiles of quads of rows
  float* rope;       // as Int8Scores::rope
  float* row_scale;  // [kLatentTileRows]
  int64_t floats = 0;
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_INT8_LAYOUT_H_
