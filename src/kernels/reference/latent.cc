// Absorbed attention in plain loops: reference::AttendTile, one query row after the other.
#include "kernels/latent.h"

#include <algorithm>
#include <limits>

#include "kernels/attend.h"
#include "kernels/latent_int8.h"

namespace mla {
namespace reference {
namespace {

struct State {
  explicit State(const LatentTask& task)
      : max(task.scratch), sum(max + task.rows * task.heads), acc(sum + task.rows * task.heads) {}
  float *max, *sum;  // [rows, heads]
  float* acc;        // [rows, heads, rank]
};

void FoldRun(const LatentTask& task, const LatentTileRows& tile) {
  const State s(task);
  const LatentFormat& f = task.format;
  for (int64_t row = 0; row < task.rows; ++row) {
    AttendTileArgs args;
    args.q = task.q + row * task.q_row_stride;
    args.q_stride = task.q_head_stride;
    args.k = args.v = tile.data;
    args.k_stride = args.v_stride = f.row_bytes / ElemSize(f.type);
    args.type = f.type;
    args.k_rope = static_cast<const char*>(tile.data) + f.rope_offset;
    args.k_rope_stride = f.row_bytes / ElemSize(f.rope_type);
    args.rope_type = f.rope_type;
    args.dr = f.rope;
    args.m = task.heads;
    args.t = std::clamp<int64_t>(tile.visible + row, 0, tile.count);
    args.dk = args.dv = f.rank;
    args.max = s.max + row * task.heads;
    args.sum = s.sum + row * task.heads;
    args.acc = s.acc + row * task.heads * f.rank;
    args.acc_stride = f.rank;
    if (args.t > 0) reference::AttendTile(args);
  }
}

}  // namespace

void LatentBegin(const LatentTask& task) noexcept {
  const State s(task);
  const int64_t pairs = task.rows * task.heads;
  std::fill(s.max, s.max + pairs, -std::numeric_limits<float>::infinity());
  std::fill(s.sum, s.sum + pairs, 0.0f);
  std::fill(s.acc, s.acc + pairs * task.format.rank, 0.0f);
}

void LatentTile(const LatentTask& task, const LatentTileRows& tile) noexcept {
  if (task.format.type == Elem::kInt8) return reference::LatentInt8Tile(task, tile);
  static_assert(kLatentRunRows <= kAttendTileRows);
  ForEachLatentRun(task.format, tile, [&](const LatentTileRows& run) { FoldRun(task, run); });
}

void LatentFinish(const LatentTask& task) noexcept {
  const State s(task);
  const LatentFormat& f = task.format;
  for (int64_t row = 0; row < task.rows; ++row) {
    AttendFinishArgs args;
    args.max = s.max + row * task.heads;
    args.sum = s.sum + row * task.heads;
    args.acc = s.acc + row * task.heads * f.rank;
    args.acc_stride = f.rank;
    args.out = task.out + row * task.out_row_stride;
    args.out_stride = task.out_head_stride;
    args.lse = task.lse == nullptr ? nullptr : task.lse + row * task.lse_row_stride;
    args.m = task.heads;
    args.dv = f.rank;
    reference::AttendFinish(args);
  }
}

}  // namespace reference
}  // namespace mla
