// The bf16 families of kernels/prefill.h with their products as an argument.
// Called by: prefill_bf16.cc, tests. Thread-safety: as kernels/prefill.h.
#ifndef MLA_KERNELS_X86_PREFILL_BF16_H_
#define MLA_KERNELS_X86_PREFILL_BF16_H_

#include "kernels/prefill.h"
#include "kernels/x86/block_product.h"

namespace mla {

/// They need AVX-512 (F, BW, VL, DQ) whatever the products.
void PrefillBf16Begin(const PrefillTask& task, const BlockProducts& products) noexcept;
void PrefillBf16Tile(const PrefillTask& task, const LatentTileRows& tile,
                     const BlockProducts& products) noexcept;
void PrefillBf16Finish(const PrefillTask& task, const BlockProducts& products) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_X86_PREFILL_BF16_H_
