// Storage types that the dense kernels read. Arithmetic is fp32 whatever the storage.
// Called by: all kernels and ops. Thread-safety: stateless.
#ifndef MLA_KERNELS_ELEM_H_
#define MLA_KERNELS_ELEM_H_

#include <cstdint>

namespace mla {

enum class Elem : uint8_t { kF32, kF16, kBf16 };

constexpr int64_t ElemSize(Elem e) noexcept { return e == Elem::kF32 ? 4 : 2; }

}  // namespace mla

#endif  // MLA_KERNELS_ELEM_H_
