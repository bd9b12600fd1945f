// Dot products of vectors: VDPBF16PS and the two encodings of VPDPBUSD.
// Called by: dot_units. Thread-safety: pure functions; the processor must have the instructions.
#ifndef MLA_KERNELS_X86_DOT_VECTORS_H_
#define MLA_KERNELS_X86_DOT_VECTORS_H_

#include <cstdint>

#include "kernels/x86/dot_product.h"

namespace mla {

/// kBf16Zmm: AVX-512 BF16. kIntZmm: AVX-512 VNNI. kIntYmm: AVX-VNNI (VEX), half as wide.
enum class DotVector { kBf16Zmm, kIntZmm, kIntYmm };

/// Does the product row by row. Returns false on other processors than x86-64.
bool VectorProduct(DotVector type, DotProduct& product) noexcept;

/// Runs `rounds` rounds of independent dot products and returns the operations done, two per
/// multiply-add. 0 on other processors.
int64_t VectorPeakLoop(DotVector type, int64_t rounds) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_X86_DOT_VECTORS_H_
