// Small dense matrix products of fp32 activations with stored weights.
// Called by: ops/linear, attention, once per tile. Thread-safety: pure functions on their
// arguments.
#ifndef MLA_KERNELS_MATMUL_H_
#define MLA_KERNELS_MATMUL_H_

#include "kernels/elem.h"

namespace mla {

/// C [m, n] (+)= A [m, k] · op(B) + bias. Strides are in elements. No argument aliases C.
/// The value of C[i][j] does not depend on m, n or the position of the tile: the order of its sum
/// is fixed by k and the ISA alone.
struct MatmulArgs {
  const float* a = nullptr;  ///< [m, k]
  int64_t a_stride = 0;      ///< >= k
  /// MatmulNt only: row i of the product is row a_rows[i] of `a`; null: row i. [m]
  const int32_t* a_rows = nullptr;
  const void* b = nullptr;  ///< transposed: [n, k] (rows are weights' rows); else [k, n]
  int64_t b_stride = 0;
  Elem b_type = Elem::kF32;
  const float* bias = nullptr;  ///< [n] or null
  float* c = nullptr;           ///< [m, n]
  int64_t c_stride = 0;         ///< >= n
  bool accumulate = false;      ///< C += instead of C =
  int64_t m = 0, n = 0, k = 0;
  /// MatmulNt only: memory of this thread for panels of many-row products, 64-byte aligned, best
  /// MatmulScratchFloats(k) floats. Without it, or with too little, the result is the same bit for
  /// bit, later.
  float* scratch = nullptr;
  int64_t scratch_floats = 0;
};

/// Rows of A from which MatmulNt uses its scratch: fewer do not repay the packing of B.
inline constexpr int64_t kMatmulPackFrom = 96;

/// Scratch with which a product of this k runs at its best: two panels, from k = 1024 on at least
/// 1.25 MiB. Never above 4 MiB; a product that this does not serve goes without.
constexpr int64_t MatmulScratchFloats(int64_t k) noexcept {
  constexpr int64_t kUsual = 320 << 10, kMost = 1 << 20;
  const int64_t two_panels = (k + 64) * 80;
  if (k < 1024) return two_panels;
  return two_panels < kUsual || two_panels > kMost ? kUsual : two_panels;
}

/// op(B) = Bᵀ, B [n, k]: the product of a linear layer.
void MatmulNt(const MatmulArgs& args) noexcept;
/// op(B) = B, B [k, n].
void MatmulNn(const MatmulArgs& args) noexcept;

namespace reference {
void MatmulNt(const MatmulArgs& args) noexcept;
void MatmulNn(const MatmulArgs& args) noexcept;
}  // namespace reference

}  // namespace mla

#endif  // MLA_KERNELS_MATMUL_H_
