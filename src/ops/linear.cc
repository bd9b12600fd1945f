#include "ops/linear.h"

#include <algorithm>

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

int64_t LinearBlockRows(const WeightView& weight) {
  constexpr int64_t kTaskBytes = 64 << 10;
  const int64_t row_bytes = std::max<int64_t>(1, weight.cols * DTypeSize(weight.dtype));
  return std::clamp<int64_t>(kTaskBytes / row_bytes / 4 * 4, 4, 256);
}

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
    const int64_t block = LinearBlockRows(w);
    first_task[i + 1] = first_task[i] + (w.rows + block - 1) / block;
  }
  context.pool.Run(first_task[outputs.size()], [&](int64_t task, int) {
    size_t i = 0;
    while (task >= first_task[i + 1]) ++i;
    const LinearOutput& out = outputs[i];
    const WeightView& w = out.linear->weight;
    const int64_t block = LinearBlockRows(w);
    const int64_t begin = (task - first_task[i]) * block;
    const WeightView part = w.Rows(begin, std::min(block, w.rows - begin));
    MatmulArgs args;
    args.a = x;
    args.a_stride = x_stride;
    args.b = part.data;
    args.b_stride = part.stride;
    args.b_type = DenseElem(w.dtype);
    args.bias = out.linear->bias != nullptr ? out.linear->bias + begin : nullptr;
    args.c = out.y + begin;
    args.c_stride = out.y_stride;
    args.accumulate = accumulate;
    args.m = rows;
    args.n = part.rows;
    args.k = w.cols;
    context.kernels.matmul_nt(args);
  });
}

}  // namespace mla
