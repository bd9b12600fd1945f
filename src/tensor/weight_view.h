// A weight matrix as the kernels see it: non-owning, row-major, in its stored format.
// Called by: model (fills it), ops and attention (read it). Thread-safety: immutable data.
#ifndef MLA_TENSOR_WEIGHT_VIEW_H_
#define MLA_TENSOR_WEIGHT_VIEW_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace mla {

/// Dense weights [rows, cols], row-major. `stride` is the distance between rows in elements
/// (>= cols). `data` is aligned to the element size at least. Empty if data is null.
/// Quantised formats will add scales and a block shape here; nothing else changes for callers.
struct WeightView {
  const void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  DType dtype = DType::kF32;

  bool empty() const { return data == nullptr; }
  int64_t bytes() const { return rows * cols * DTypeSize(dtype); }

  /// Rows [first, first + count) as a view of their own.
  WeightView Rows(int64_t first, int64_t count) const {
    WeightView view = *this;
    view.data = static_cast<const char*>(data) + first * stride * DTypeSize(dtype);
    view.rows = count;
    return view;
  }
};

}  // namespace mla

#endif  // MLA_TENSOR_WEIGHT_VIEW_H_
