#include "ops/rows.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "ops/linear.h"

namespace mla {
namespace {

// Rows are short (microseconds of work), so a task takes several.
constexpr int64_t kRowsPerTask = 8;

template <typename Fn>
void ForEachRow(OpContext& context, int64_t rows, Fn fn) {
  context.pool.Run((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * kRowsPerTask);
    for (int64_t i = task * kRowsPerTask; i < end; ++i) fn(i);
  });
}

}  // namespace

void RmsNormRows(OpContext& context, const float* x, int64_t x_stride, const float* w, double eps,
                 float* y, int64_t y_stride, int64_t rows, int64_t n) {
  ForEachRow(context, rows, [&](int64_t i) {
    context.kernels.rms_norm(x + i * x_stride, w, static_cast<float>(eps), y + i * y_stride, n);
  });
}

void GatherRows(OpContext& context, const WeightView& table, std::span<const int32_t> ids,
                float* y) {
  const Elem type = DenseElem(table.dtype);
  ForEachRow(context, static_cast<int64_t>(ids.size()), [&](int64_t i) {
    const WeightView row = table.Rows(ids[static_cast<size_t>(i)], 1);
    context.kernels.to_float(row.data, type, y + i * table.cols, table.cols);
  });
}

int64_t FirstNonFiniteRow(OpContext& context, const float* x, int64_t rows, int64_t n) {
  std::atomic<int64_t> first{rows};
  ForEachRow(context, rows, [&](int64_t i) {
    if (context.kernels.all_finite(x + i * n, n)) return;
    int64_t seen = first.load();
    while (i < seen && !first.compare_exchange_weak(seen, i)) {
    }
  });
  return first.load() == rows ? -1 : first.load();
}

}  // namespace mla
