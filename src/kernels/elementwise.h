// Row operations of a transformer layer: norm, rotation, activation, sums, checks, conversions.
// Called by: ops, layers, attention. Thread-safety: pure functions on their arguments.
#ifndef MLA_KERNELS_ELEMENTWISE_H_
#define MLA_KERNELS_ELEMENTWISE_H_

#include "kernels/elem.h"

namespace mla {

/// y = w · x · rsqrt(mean(x²) + eps) over n elements; y may be x. fp32 accumulation.
void RmsNorm(const float* x, const float* w, float eps, float* y, int64_t n) noexcept;

/// Rotates n/2 pairs of x in place: a' = a·cos − b·sin, b' = b·cos + a·sin. Pairs are (2i, 2i+1)
/// or, with half_split, (i, i + n/2). cos, sin: [n/2].
void RotatePairs(float* x, const float* cos, const float* sin, int64_t n, bool half_split) noexcept;

/// y[i] = silu(gate[i]) · up[i]; y may be gate or up.
void SwiGlu(const float* gate, const float* up, float* y, int64_t n) noexcept;

/// y[i] += scale · x[i].
void Axpy(float scale, const float* x, float* y, int64_t n) noexcept;

/// In-place softmax over n logits (fp32).
void Softmax(float* x, int64_t n) noexcept;

/// Whether no element is NaN or infinite.
bool AllFinite(const float* x, int64_t n) noexcept;

/// Storage to fp32 and back (round to nearest even).
void ToFloat(const void* x, Elem type, float* y, int64_t n) noexcept;
void FromFloat(const float* x, Elem type, void* y, int64_t n) noexcept;

namespace reference {
void RmsNorm(const float* x, const float* w, float eps, float* y, int64_t n) noexcept;
void RotatePairs(float* x, const float* cos, const float* sin, int64_t n, bool half_split) noexcept;
void SwiGlu(const float* gate, const float* up, float* y, int64_t n) noexcept;
void Axpy(float scale, const float* x, float* y, int64_t n) noexcept;
void Softmax(float* x, int64_t n) noexcept;
bool AllFinite(const float* x, int64_t n) noexcept;
void ToFloat(const void* x, Elem type, float* y, int64_t n) noexcept;
void FromFloat(const float* x, Elem type, void* y, int64_t n) noexcept;
}  // namespace reference

}  // namespace mla

#endif  // MLA_KERNELS_ELEMENTWISE_H_
