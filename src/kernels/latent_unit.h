// Which unit the latent kernels use for bf16 latents.
// Called by: engine (sets it after the probe), kernels/latent.cc, tests. Thread-safety: set it
// while no latent kernel runs.
#ifndef MLA_KERNELS_LATENT_UNIT_H_
#define MLA_KERNELS_LATENT_UNIT_H_

#include "kernels/latent.h"
#include "kernels/x86/dot_units.h"
#include "kernels/x86/latent_bf16.h"

namespace mla {

/// For the whole process: kFma (at first), or kBf16Dot or kAmxBf16, which the caller has found
/// usable in every thread that will run kernels (TryDotUnit). Throws kInternal for other units and
/// for a build that lacks them. Latents that are not bf16 with k_rope in fp16 stay with kFma.
void SetLatentUnit(DotUnit unit);
DotUnit LatentUnit() noexcept;

/// The products that rows of this format use, or null: fp32 multiply-adds.
const Bf16Products* LatentProducts(const LatentFormat& format) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_LATENT_UNIT_H_
