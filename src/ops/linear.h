// Linear layers y = W x + b over a batch of rows.
// Called by: layers, attention (through layers), model. Thread-safety: one call at a time per pool.
#ifndef MLA_OPS_LINEAR_H_
#define MLA_OPS_LINEAR_H_

#include <cstdint>
#include <span>

#include "ops/context.h"
#include "tensor/weight_view.h"

namespace mla {

/// weight [out, in]; bias [out] fp32 or null.
struct Linear {
  WeightView weight;
  const float* bias = nullptr;
};

/// Where one of several products of the same input goes: y [rows, out], stride y_stride >= out.
struct LinearOutput {
  const Linear* linear = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
};

/// For each output: y = x · Wᵀ + b, or y += with `accumulate`. x [rows, in], stride x_stride.
/// One parallel region for all outputs. Throws kInternal if shapes disagree.
void ApplyLinear(OpContext& context, const float* x, int64_t x_stride, int64_t rows,
                 std::span<const LinearOutput> outputs, bool accumulate = false);

/// Storage type of a dense weight. Throws kInternal for others.
Elem DenseElem(DType dtype);

/// Kernel arguments of c [rows, w.rows] = a [rows, w.cols] · wᵀ (for matmul_nt).
MatmulArgs ProductNt(const float* a, int64_t a_stride, int64_t rows, const WeightView& w, float* c,
                     int64_t c_stride);
/// Kernel arguments of c [rows, w.cols] = a [rows, w.rows] · w (for matmul_nn).
MatmulArgs ProductNn(const float* a, int64_t a_stride, int64_t rows, const WeightView& w, float* c,
                     int64_t c_stride);

/// Most that LinearBlockRows returns.
inline constexpr int64_t kMostLinearBlockRows = 256;

/// Rows of W per task, so that a task reads about 64 KiB; a multiple of 4.
int64_t LinearBlockRows(const WeightView& weight);

}  // namespace mla

#endif  // MLA_OPS_LINEAR_H_
