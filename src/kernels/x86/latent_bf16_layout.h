// Where the parts of a task's scratch lie, for the families of bf16 products.
// Called by: kernels/x86/latent_bf16*.cc only. Thread-safety: a value.
#ifndef MLA_KERNELS_X86_LATENT_BF16_LAYOUT_H_
#define MLA_KERNELS_X86_LATENT_BF16_LAYOUT_H_

#include <algorithm>

#include "kernels/x86/latent_bf16.h"

namespace mla {

/// The panels of one query row: both bf16 parts of the query of 16 heads each, high part first. The
/// heads beyond whole groups, if there are at most 8, share one panel: high parts in the lower
/// half, low parts in the upper. So 20 heads cost three panels, not four.
struct Bf16Layout {
  Bf16Layout(const LatentFormat& format, int64_t rows, int64_t heads, float* scratch)
      : rank((format.rank + kBf16Depth - 1) / kBf16Depth * kBf16Depth),
        rope(format.rope),
        full(heads / kBf16Lanes),
        rest(heads % kBf16Lanes),
        groups(full + (rest > 0 ? 1 : 0)),
        shared(rest > 0 && rest <= kBf16Lanes / 2),
        panels(2 * groups - (shared ? 1 : 0)) {
    const int64_t all = rows * groups;
    // No pointers where only the size is asked for.
    const auto take = [&](int64_t count) {
      float* const part = scratch == nullptr ? nullptr : scratch + floats;
      floats += count;
      return part;
    };
    q = take(rows * panels * PanelFloats());
    q_rope = take(all * rope * kBf16Lanes);
    scores = take(rows * panels * kScoreFloats);
    s = take(all * kScoreFloats);
    p = take(all * kScoreFloats / 2);
    max = take(all * kBf16Lanes);
    sum = take(all * kBf16Lanes);
    shrink = take(all * kBf16Lanes);
    acc = take(rows * heads * rank);
    piece = take(kLatentTileRows / 2 * kBf16PieceBlocks * kBf16Lanes);
    pad_rows = take(kBf16Block * rank / 2);
    tail = take(kLatentTileRows * kBf16Depth / 2);
    rope_rows = take(kLatentTileRows * rope);
  }

  static constexpr int64_t kScoreFloats = kLatentTileRows * kBf16Lanes;

  int64_t PanelFloats() const { return rank / 2 * kBf16Lanes; }
  int64_t Group(int64_t row, int64_t group) const { return row * groups + group; }
  /// Of the high part; the low part's follows unless it is shared.
  int64_t Panel(int64_t row, int64_t group) const { return row * panels + 2 * group; }
  bool Shared(int64_t group) const { return shared && group == full; }
  int64_t Heads(int64_t group) const { return group < full ? kBf16Lanes : rest; }

  int64_t rank;  // rounded up to whole steps
  int64_t rope;
  int64_t full, rest;  // whole groups per query row, heads beyond them
  int64_t groups;      // per query row
  bool shared;         // the last group has one panel
  int64_t panels;      // per query row
  float* q;            // [rows, panels, rank / 2, lanes] pairs of bf16
  float* q_rope;       // [rows, groups, rope, lanes]
  float* scores;       // [rows, panels, kLatentTileRows, lanes]
  float* s;            // [rows, groups, kLatentTileRows, lanes]: first the part of k_rope
  float* p;            // [rows, groups, lanes, kLatentTileRows] bf16
  float *max, *sum;    // [rows, groups, lanes], max in log2 units
  float* shrink;       // [rows, groups, lanes]
  float* acc;          // per row and group [rank / lanes, heads, lanes]
  float* piece;        // as Bf16Output::piece
  float* pad_rows;     // [kBf16Block, rank] bf16: the last block, where it is not whole
  float* tail;         // [kLatentTileRows, kBf16Depth] bf16: the last columns, where not whole
  float* rope_rows;    // [kLatentTileRows, rope]
  int64_t floats = 0;
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_BF16_LAYOUT_H_
