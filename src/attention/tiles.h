// Walks a window tile by tile and folds each into the softmax state of some query rows.
// Called by: attention/decompressed.cc. Thread-safety: pure on its arguments.
#ifndef MLA_ATTENTION_TILES_H_
#define MLA_ATTENTION_TILES_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/kernel_table.h"

namespace mla {

/// Query rows from which converting a 16-bit tile of K and V to fp32 once beats doing it per row.
inline constexpr int64_t kConvertFrom = 8;

/// Softmax state of m query rows in thread scratch.
struct TileState {
  float* max;        // [m]
  float* sum;        // [m]
  float* acc;        // [m, dv]
  float* scores;     // [m, kAttendTileRows]
  int32_t* visible;  // [m]

  static int64_t Floats(int64_t m, int64_t dv) { return m * (dv + kAttendTileRows + 3); }

  /// Lays the state out at `memory` (Floats(m, dv) floats) and empties it.
  static TileState At(float* memory, int64_t m, int64_t dv) {
    TileState s{};
    s.acc = memory;
    s.scores = s.acc + m * dv;
    s.max = s.scores + m * kAttendTileRows;
    s.sum = s.max + m;
    s.visible = reinterpret_cast<int32_t*>(s.sum + m);
    std::fill(s.acc, s.acc + m * dv, 0.0f);
    std::fill(s.sum, s.sum + m, 0.0f);
    std::fill(s.max, s.max + m, -std::numeric_limits<float>::infinity());
    return s;
  }
};

/// Consecutive query rows of one head: row i is at position first_position + i.
struct TileQueries {
  const float* q = nullptr;
  int64_t stride = 0;
  int64_t count = 0;
  int64_t first_position = 0;

  int64_t Position(int64_t i) const { return first_position + i; }
};

/// One tile of keys and values, as AttendTileArgs takes them.
struct KeyTile {
  const void* k = nullptr;
  int64_t k_stride = 0;
  const void* v = nullptr;
  int64_t v_stride = 0;
  Elem type = Elem::kF32;
  // The rotated rest of each key, where it is not part of k.
  const void* k_rope = nullptr;
  int64_t k_rope_stride = 0;
  Elem rope_type = Elem::kF32;
  int64_t dr = 0;
  // What the next tile will read, or null.
  const void* prefetch = nullptr;
  int64_t prefetch_bytes = 0;
};

/// For each tile [p, p + t) of [begin, end), cut at multiples of kAttendTileRows: asks
/// tile(p, t) -> KeyTile and folds it in; dk is the whole width of a key. Keys after a query's own
/// position are not seen.
template <typename TileFn>
void ForEachTile(const KernelTable& kernels, const TileQueries& queries, int64_t begin, int64_t end,
                 int64_t dk, int64_t dv, const TileState& state, TileFn tile) {
  for (int64_t p = begin; p < end;) {
    const int64_t next = std::min(end, (p / kAttendTileRows + 1) * kAttendTileRows);
    const KeyTile keys = tile(p, next - p);
    AttendTileArgs args;
    args.q = queries.q;
    args.q_stride = queries.stride;
    args.k = keys.k;
    args.k_stride = keys.k_stride;
    args.v = keys.v;
    args.v_stride = keys.v_stride;
    args.type = keys.type;
    args.m = queries.count;
    args.t = next - p;
    args.k_rope = keys.k_rope;
    args.k_rope_stride = keys.k_rope_stride;
    args.rope_type = keys.rope_type;
    args.dr = keys.dr;
    args.prefetch = keys.prefetch;
    args.prefetch_bytes = keys.prefetch_bytes;
    args.dk = dk - keys.dr;
    args.dv = dv;
    args.max = state.max;
    args.sum = state.sum;
    args.acc = state.acc;
    args.acc_stride = dv;
    args.scratch = state.scores;
    if (queries.Position(0) + 1 < next) {
      for (int64_t i = 0; i < queries.count; ++i) {
        const int64_t visible = queries.Position(i) + 1 - p;
        state.visible[i] = static_cast<int32_t>(std::clamp<int64_t>(visible, 0, next - p));
      }
      args.visible = state.visible;
    }
    kernels.attend_tile(args);
    p = next;
  }
}

}  // namespace mla

#endif  // MLA_ATTENTION_TILES_H_
