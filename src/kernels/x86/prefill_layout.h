// Where the parts of a prefill task's scratch lie.
// Called by: kernels/x86/prefill*.cc only. Thread-safety: a value.
#ifndef MLA_KERNELS_X86_PREFILL_LAYOUT_H_
#define MLA_KERNELS_X86_PREFILL_LAYOUT_H_

#include "kernels/prefill.h"
#include "kernels/x86/latent_bf16.h"

namespace mla {

/// Query rows are lanes, in groups of 16, two of which share a block of work. Keys are taken in
/// steps of 32 as depth, in runs of 64 for their up-projection.
struct PrefillLayout {
  static constexpr int64_t kPart = kBf16TileFloats;
  static constexpr int64_t kParts = 2;   // of the query
  static constexpr int64_t kGroups = 2;  // of a block
  static constexpr int64_t kKeySteps = kLatentTileRows / kBf16Depth;
  static constexpr int64_t kRunRows = 64;
  static constexpr int64_t kRunBlocks = kRunRows / kBf16Block;
  static constexpr int64_t kKeyBlocks = kLatentTileRows / kBf16Block;

  PrefillLayout(const LatentFormat& format, int64_t rows, int64_t nope, int64_t v_dim,
                float* scratch)
      : groups(Up(rows, kBf16Lanes * kGroups) * kGroups),
        rank_steps(Up(format.rank, kBf16Depth)),
        nope_steps(Up(nope, kBf16Depth)),
        rope_steps(Up(format.rope, kBf16Depth)),
        steps(nope_steps + rope_steps),
        k_steps(steps + rope_steps),
        v_blocks(Up(v_dim, kBf16Lanes)) {
    // No pointers where only the size is asked for.
    const auto take = [&](int64_t count) {
      float* const part = scratch == nullptr ? nullptr : scratch + floats;
      floats += count;
      return part;
    };
    q = take(groups * steps * kParts * kPart);
    acc = take(groups * v_blocks * kPart);
    max = take(groups * kBf16Lanes);
    sum = take(groups * kBf16Lanes);
    weights = take((2 * nope_steps + v_blocks) * rank_steps * kPart);
    run_rows = take(kRunRows * rank_steps * kBf16Pairs);
    k = take(kKeyBlocks * k_steps * kPart);
    v = take(v_blocks * kKeySteps * kPart);
    broken_v = take(v_blocks * kKeySteps * kPart);
    sums = take((2 * nope_steps + v_blocks) * kRunBlocks * kPart);
    s = take(kKeyBlocks * kGroups * kPart);
    high = take(kKeyBlocks * kGroups * kPart);
    p = take(kKeySteps * kGroups * kPart);
  }

  static int64_t Up(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

  float* Q(int64_t group) const { return q + group * steps * kParts * kPart; }
  float* Acc(int64_t group) const { return acc + group * v_blocks * kPart; }
  /// Block `block` of 16 columns: first those of w_uk, then those of w_uv.
  float* Weights(int64_t block) const { return weights + block * rank_steps * kPart; }
  float* Sums(int64_t block) const { return sums + block * kRunBlocks * kPart; }
  float* K(int64_t block) const { return k + block * k_steps * kPart; }
  int64_t V(int64_t block) const { return block * kKeySteps * kPart; }

  int64_t groups;
  int64_t rank_steps, nope_steps, rope_steps;
  int64_t steps;     // of a query: without position, then rotated
  int64_t k_steps;   // of a key: the same, then the low parts of the rotated ones
  int64_t v_blocks;  // of 16 columns
  float* q;          // [groups, steps, kParts, tile] pairs of columns, lanes are rows
  float* acc;        // [groups, v_blocks, 16 columns, lanes]
  float *max, *sum;  // [groups, lanes], max in log2 units
  float* weights;    // [blocks, rank_steps, tile] pairs of columns of the latent, lanes are outputs
  float* run_rows;   // [kRunRows, rank_steps * 32] bf16: latent rows that cannot be used in place
  float* k;          // [kKeyBlocks, k_steps, 16 keys, 16 pairs]
  float* v;          // [v_blocks, kKeySteps, 16 columns, 16 pairs of keys]
  float* broken_v;   // as v, with what is not finite, which v has as 0
  float* sums;       // of the up-projection, [blocks, kRunBlocks, tile]
  float* s;          // [kKeyBlocks, kGroups, 16 keys, lanes]
  float* high;       // as s, of the query's high parts alone
  float* p;          // [kKeySteps, kGroups, 16 pairs of keys, lanes]
  int64_t floats = 0;
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_PREFILL_LAYOUT_H_
