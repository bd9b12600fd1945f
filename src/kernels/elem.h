// Storage types that the dense kernels read. Arithmetic is fp32 whatever the storage.
// Called by: all kernels and ops. Thread-safety: stateless.
#ifndef MLA_KERNELS_ELEM_H_
#define MLA_KERNELS_ELEM_H_

#include <cstdint>

namespace mla {

/// kInt8 is a type of latent rows only, which carry a scale each (kernels/latent_int8.h); the
/// kernels for single elements do not take it.
enum class Elem : uint8_t { kF32, kF16, kBf16, kInt8 };

constexpr int64_t ElemSize(Elem e) noexcept {
  return e == Elem::kF32 ? 4 : e == Elem::kInt8 ? 1 : 2;
}

}  // namespace mla

#endif  // MLA_KERNELS_ELEM_H_
