#include "kernels/latent.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attend.h"
#include "kernels/latent_int8.h"
#include "kernels/latent_unit.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/latent.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "kernels/exp2-inl.h"
#include "kernels/latent_output-inl.h"
#include "kernels/latent_rows-inl.h"
#include "kernels/latent_scores-inl.h"
#include "kernels/tile-inl.h"

// The schedule (docs/kernels/latent_fma.md has the arithmetic behind it): query heads are the lanes
// of the scores, so a score is a chain of multiply-adds without a horizontal step; columns of c_kv
// are the lanes of the output. Rows become fp32 in pieces that stay in the L1 cache. Every score
// and every output element is one chain in a fixed order, whatever the blocking around it.

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

constexpr float kNone = -std::numeric_limits<float>::infinity();

void Begin(const LatentTask& task) {
  const Layout l(task);
  const int64_t all = task.rows * l.groups;
  std::fill(l.q, l.q + all * l.width * l.lanes, 0.0f);
  std::fill(l.max, l.max + all * l.lanes, kNone);
  std::fill(l.sum, l.sum + all * l.lanes, 0.0f);
  std::fill(l.acc, l.acc + task.rows * task.heads * l.rank, 0.0f);
  const LatentFormat& f = task.format;
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t head = 0; head < task.heads; ++head) {
      const float* from = task.q + row * task.q_row_stride + head * task.q_head_stride;
      const int64_t group = head / l.lanes;
      const bool dot = l.dot_rest && group == l.full;
      float* to = l.Q(row, group) + (head % l.lanes) * (dot ? l.width : 1);
      const int64_t step = dot ? 1 : l.lanes;
      // Scores in log2 units from here on.
      ForEachPackedColumn(f.type, f.rank,
                          [&](int64_t x, int64_t packed) { to[packed * step] = from[x] * kLog2E; });
      to += l.rank * step;
      from += f.rank;
      ForEachPackedColumn(f.rope_type, f.rope,
                          [&](int64_t x, int64_t packed) { to[packed * step] = from[x] * kLog2E; });
    }
  }
}

// Scores to weights, for one group of heads; the state's max and sum, and the factor by which what
// was there before shrinks.
void SoftmaxGroup(const Layout& l, int64_t query, int64_t group, int64_t seen) {
  const DF d;
  float* s = l.Scores(query, group);
  const int64_t at = (query * l.groups + group) * l.lanes;
  VF best = hn::Set(d, kNone);
  for (int64_t i = 0; i < seen; ++i) best = hn::Max(best, hn::LoadU(d, s + i * l.lanes));
  const VF old = hn::LoadU(d, l.max + at);
  const VF max = hn::Max(old, best);
  // With only -inf so far the weights must come out as 0, not as exp(-inf + inf).
  const VF shift = hn::IfThenElse(hn::Eq(max, hn::Set(d, kNone)), hn::Zero(d), max);
  VF sum = hn::Zero(d);
  for (int64_t i = 0; i < seen; ++i) {
    const VF p = Exp2NotAboveZero(d, hn::Sub(hn::LoadU(d, s + i * l.lanes), shift));
    hn::StoreU(p, d, s + i * l.lanes);
    sum = hn::Add(sum, p);
  }
  const VF shrink = Exp2NotAboveZero(d, hn::Sub(old, shift));
  hn::StoreU(hn::MulAdd(hn::LoadU(d, l.sum + at), shrink, sum), d, l.sum + at);
  hn::StoreU(max, d, l.max + at);
  hn::StoreU(shrink, d, l.shrink + at);
}

void Tile(const LatentTask& task, const LatentTileRows& tile) {
  const Layout l(task);
  const int64_t most = Seen(tile, task.rows - 1);
  if (most == 0) return;
  Scores(task, l, tile, most);
  for (int64_t query = 0; query < task.rows; ++query) {
    const int64_t seen = Seen(tile, query);
    if (seen == 0) continue;
    for (int64_t group = 0; group < l.groups; ++group) SoftmaxGroup(l, query, group, seen);
  }
  Output(task, l, tile, most);
}

void Finish(const LatentTask& task) {
  const Layout l(task);
  const LatentFormat& f = task.format;
  for (int64_t query = 0; query < task.rows; ++query) {
    for (int64_t head = 0; head < task.heads; ++head) {
      const int64_t at = (query * l.groups + head / l.lanes) * l.lanes + head % l.lanes;
      // The sum is 0 only for a row that saw no key; NaN must stay visible.
      const bool saw = !(l.sum[at] == 0.0f);
      const float inverse = saw ? 1.0f / l.sum[at] : 0.0f;
      const int64_t acc_panel = task.rows * task.heads * l.lanes;
      const float* acc = l.acc + (query * task.heads + head) * l.lanes;
      float* out = task.out + query * task.out_row_stride + head * task.out_head_stride;
      ForEachPackedColumn(f.type, f.rank, [&](int64_t x, int64_t packed) {
        out[x] = acc[packed / l.lanes * acc_panel + packed % l.lanes] * inverse;
      });
      if (task.lse != nullptr) {
        task.lse[query * task.lse_row_stride + head] =
            saw ? std::log2(l.sum[at]) + l.max[at] : kNone;
      }
    }
  }
}

int64_t ScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) {
  LatentTask task;
  task.format = format;
  task.rows = rows;
  task.heads = heads;
  return Layout(task).floats;
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {

HWY_EXPORT(Begin);
HWY_EXPORT(Tile);
HWY_EXPORT(Finish);
HWY_EXPORT(ScratchFloats);

void LatentBegin(const LatentTask& task) noexcept {
  if (const auto* products = LatentProducts(task.format)) return LatentBf16Begin(task, *products);
  if (const auto* products = LatentInt8Products(task.format)) {
    return LatentInt8AmxBegin(task, *products);
  }
  if (task.format.type == Elem::kInt8) return LatentInt8Begin(task);
  HWY_DYNAMIC_DISPATCH(Begin)(task);
}
void LatentTile(const LatentTask& task, const LatentTileRows& tile) noexcept {
  if (const auto* products = LatentProducts(task.format)) {
    return LatentBf16Tile(task, tile, *products);
  }
  if (const auto* products = LatentInt8Products(task.format)) {
    return LatentInt8AmxTile(task, tile, *products);
  }
  ForEachLatentRun(task.format, tile, [&](const LatentTileRows& run) {
    if (task.format.type == Elem::kInt8) {
      LatentInt8Tile(task, run);
    } else {
      HWY_DYNAMIC_DISPATCH(Tile)(task, run);
    }
  });
}
void LatentFinish(const LatentTask& task) noexcept {
  if (const auto* products = LatentProducts(task.format)) return LatentBf16Finish(task, *products);
  if (const auto* products = LatentInt8Products(task.format)) {
    return LatentInt8AmxFinish(task, *products);
  }
  if (task.format.type == Elem::kInt8) return LatentInt8Finish(task);
  HWY_DYNAMIC_DISPATCH(Finish)(task);
}
int64_t LatentScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) noexcept {
  if (LatentProducts(format) != nullptr) return LatentBf16ScratchFloats(format, rows, heads);
  if (LatentInt8Products(format) != nullptr) {
    return LatentInt8AmxScratchFloats(format, rows, heads);
  }
  if (format.type == Elem::kInt8) return LatentInt8ScratchFloats(format, rows, heads);
  return HWY_DYNAMIC_DISPATCH(ScratchFloats)(format, rows, heads);
}

}  // namespace mla
#endif  // HWY_ONCE
