// Row-wise ops over a batch: norm, gathering of embeddings, the finite check.
// Called by: layers, model. Thread-safety: one call at a time per pool.
#ifndef MLA_OPS_ROWS_H_
#define MLA_OPS_ROWS_H_

#include <cstdint>
#include <span>

#include "ops/context.h"
#include "tensor/weight_view.h"

namespace mla {

/// y_i = RMSNorm(x_i) · w for rows of n elements; strides in elements; y may be x.
void RmsNormRows(OpContext& context, const float* x, int64_t x_stride, const float* w, double eps,
                 float* y, int64_t y_stride, int64_t rows, int64_t n);

/// y [ids, cols] = the ids' rows of table. Ids are in range.
void GatherRows(OpContext& context, const WeightView& table, std::span<const int32_t> ids,
                float* y);

/// Index of the first row of x [rows, n] that holds a NaN or infinity; -1 if there is none.
int64_t FirstNonFiniteRow(OpContext& context, const float* x, int64_t rows, int64_t n);

}  // namespace mla

#endif  // MLA_OPS_ROWS_H_
