#include "ops/linear.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mla {

Elem DenseElem(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Elem::kF32;
    case DType::kF16:
      return Elem::kF16;
    case DType::kBf16:
      return Elem::kBf16;
    default:
      Fail(ErrorCode::kInternal, "internal error: {} is not a dense weight", DTypeName(dtype));
  }
}

MatmulArgs ProductNt(const float* a, int64_t a_stride, int64_t rows, const WeightView& w, float* c,
                     int64_t c_stride) {
  MatmulArgs args;
  args.a = a;
  args.a_stride = a_stride;
  args.b = w.data;
  args.b_stride = w.stride;
  args.b_type = DenseElem(w.dtype);
  args.c = c;
  args.c_stride = c_stride;
  args.m = rows;
  args.n = w.rows;
  args.k = w.cols;
  return args;
}

MatmulArgs ProductNn(const float* a, int64_t a_stride, int64_t rows, const WeightView& w, float* c,
                     int64_t c_stride) {
  MatmulArgs args = ProductNt(a, a_stride, rows, w, c, c_stride);
  std::swap(args.n, args.k);
  return args;
}

int64_t LinearBlockRows(const WeightView& weight) {
  constexpr int64_t kTaskBytes = 64 << 10;
  const int64_t row_bytes = std::max<int64_t>(1, weight.cols * DTypeSize(weight.dtype));
  return std::clamp<int64_t>(kTaskBytes / row_bytes / 4 * 4, 4, kMostLinearBlockRows);
}

namespace {

// Rows of W per task. Packed panels want as many as the scratch holds of a usual width.
int64_t TaskRows(const WeightView& w, int64_t rows) {
  constexpr int64_t kPanelRows = 128;
  const int64_t block = LinearBlockRows(w);
  return rows >= kMatmulPackFrom ? std::max(block, kPanelRows) : block;
}

}  // namespace

void ApplyLinear(OpContext& context, const float* x, int64_t x_stride, int64_t rows,
                 std::span<const LinearOutput> outputs, bool accumulate) {
  constexpr size_t kMostOutputs = 4;
  Require(!outputs.empty() && outputs.size() <= kMostOutputs, "ApplyLinear takes 1 to 4 outputs");
  int64_t first_task[kMostOutputs + 1] = {};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const WeightView& w = outputs[i].linear->weight;
    Require(!w.empty() && w.cols == outputs[0].linear->weight.cols && w.cols <= x_stride &&
                w.rows <= outputs[i].y_stride,
            "ApplyLinear: shapes disagree");
    DenseElem(w.dtype);  // checked here, since tasks must not throw
    const int64_t block = TaskRows(w, rows);
    first_task[i + 1] = first_task[i] + (w.rows + block - 1) / block;
  }
  context.pool.Run(first_task[outputs.size()], [&](int64_t task, int thread) {
    size_t i = 0;
    while (task >= first_task[i + 1]) ++i;
    const LinearOutput& out = outputs[i];
    const WeightView& w = out.linear->weight;
    const int64_t block = TaskRows(w, rows);
    const int64_t begin = (task - first_task[i]) * block;
    const WeightView part = w.Rows(begin, std::min(block, w.rows - begin));
    MatmulArgs args = ProductNt(x, x_stride, rows, part, out.y + begin, out.y_stride);
    if (out.linear->bias != nullptr) args.bias = out.linear->bias + begin;
    args.accumulate = accumulate;
    args.scratch = context.scratch.Get(thread);
    args.scratch_floats = context.scratch.size();
    context.kernels.matmul_nt(args);
  });
}

}  // namespace mla
