// Where the parts of a task's scratch lie, for the families of bf16 products.
// Called by: kernels/x86/latent_bf16*.cc only. Thread-safety: a value.
#ifndef MLA_KERNELS_X86_LATENT_BF16_LAYOUT_H_
#define MLA_KERNELS_X86_LATENT_BF16_LAYOUT_H_

#include <algorithm>

#include "kernels/x86/latent_bf16.h"

namespace mla {

/// A group of 16 heads has two parts of its query, high and low, which meet the same sums. Heads
/// beyond whole groups, if there are at most 8, have one: high parts in its lower lanes, low parts
/// in the upper. So 20 heads cost three parts, not four.
struct Bf16Layout {
  Bf16Layout(const LatentFormat& format, int64_t rows, int64_t heads, float* scratch)
      : rank((format.rank + kBf16Depth - 1) / kBf16Depth * kBf16Depth),
        rope_steps((format.rope + kBf16Pairs - 1) / kBf16Pairs),
        steps(rank / kBf16Depth + rope_steps),
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
    q = take(rows * parts * steps * kBf16TileFloats);
    s = take(all * kScoreFloats);
    p = take(all * kScoreFloats / 2);
    max = take(all * kBf16Lanes);
    sum = take(all * kBf16Lanes);
    shrink = take(all * kBf16Lanes);
    acc = take(rows * heads * rank);
    piece = take(kLatentTileRows / 2 * kBf16PieceBlocks * kBf16Lanes);
    pad_rows = take(kBf16Block * rank / 2);
    tail = take(kRunRows * kBf16Pairs);
    rope = take(kRunRows * rope_steps * kBf16Pairs);
  }

  static constexpr int64_t kScoreFloats = kLatentTileRows * kBf16Lanes;
  static constexpr int64_t kRunRows = kBf16Blocks * kBf16Block;  // of one call of scores

  int64_t Group(int64_t row, int64_t group) const { return row * groups + group; }
  float* Q(int64_t row, int64_t group) const {
    return q + (row * parts + 2 * group) * steps * kBf16TileFloats;
  }
  bool Shared(int64_t group) const { return shared && group == full; }
  int64_t Parts(int64_t group) const { return Shared(group) ? 1 : 2; }
  int64_t Heads(int64_t group) const { return group < full ? kBf16Lanes : rest; }

  int64_t rank;  // rounded up to whole steps
  int64_t rope_steps;
  int64_t steps;       // of a row: those of c_kv, then those of k_rope
  int64_t full, rest;  // whole groups per query row, heads beyond them
  int64_t groups;      // per query row
  bool shared;         // the last group has one part
  int64_t parts;       // per query row
  float* q;            // per row and group [steps, Parts(group), kBf16TileFloats]
  float* s;            // [rows, groups, kLatentTileRows, lanes]
  float* p;            // [rows, groups, lanes, kLatentTileRows] bf16
  float *max, *sum;    // [rows, groups, lanes], max in log2 units
  float* shrink;       // [rows, groups, lanes]
  float* acc;          // per row and group [rank / lanes, heads, lanes]
  float* piece;        // as Bf16Output::piece
  float* pad_rows;     // [kBf16Block, rank] bf16: the last block, where it is not whole
  float* tail;         // as Bf16Scores::tail
  float* rope;         // as Bf16Scores::rope
  int64_t floats = 0;
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_BF16_LAYOUT_H_
