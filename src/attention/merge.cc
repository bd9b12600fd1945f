#include "attention/merge.h"

#include "base/check.h"

namespace mla {

void MergePartials(OpContext& context, std::span<const float> v_in, std::span<const float> lse_in,
                   std::span<const int32_t> indptr, int64_t heads, int64_t dim,
                   std::span<float> v_out, std::span<float> lse_out) {
  if (heads < 1 || dim < 1 || indptr.empty() || indptr.front() != 0) {
    Fail(ErrorCode::kUsage,
         "merge: heads {}, dim {}, {} offsets; expected positive sizes and offsets from 0", heads,
         dim, indptr.size());
  }
  for (size_t i = 1; i < indptr.size(); ++i) {
    if (indptr[i] < indptr[i - 1]) {
      Fail(ErrorCode::kUsage, "merge: offset {} is {} after {}; expected ascending offsets", i,
           indptr[i], indptr[i - 1]);
    }
  }
  const auto expect = [&](const char* what, size_t found, int64_t count, int64_t width) {
    const int64_t want = CheckedMul(CheckedMul(count, heads, what), width, what);
    if (static_cast<int64_t>(found) != want) {
      Fail(ErrorCode::kUsage, "merge: {} has {} elements; expected {}", what, found, want);
    }
  };
  const int64_t partials = indptr.back();
  const int64_t outputs = static_cast<int64_t>(indptr.size()) - 1;
  expect("v_in", v_in.size(), partials, dim);
  expect("lse_in", lse_in.size(), partials, 1);
  expect("v_out", v_out.size(), outputs, dim);
  if (!lse_out.empty()) expect("lse_out", lse_out.size(), outputs, 1);
  context.pool.Run(outputs * heads, [&](int64_t task, int) {
    MergeArgs args;
    args.v_in = v_in.data();
    args.lse_in = lse_in.data();
    args.indptr = indptr.data();
    args.v_out = v_out.data();
    args.lse_out = lse_out.empty() ? nullptr : lse_out.data();
    args.heads = heads;
    args.dim = dim;
    args.output = task / heads;
    args.head = task % heads;
    context.kernels.merge_states(args);
  });
}

}  // namespace mla
