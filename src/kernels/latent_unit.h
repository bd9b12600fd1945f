// Which units the latent kernels use, for 16-bit latents and for int8 ones.
// Called by: engine (sets them after the probe), kernels/latent*.cc, tests. Thread-safety: set them
// while no latent kernel runs.
#ifndef MLA_KERNELS_LATENT_UNIT_H_
#define MLA_KERNELS_LATENT_UNIT_H_

#include "kernels/latent.h"
#include "kernels/x86/dot_units.h"
#include "kernels/x86/latent_bf16.h"
#include "kernels/x86/latent_int8_amx.h"

namespace mla {

/// What the cache of the latent holds: bf16 or fp16, or 8-bit integers.
enum class LatentKind { k16Bit, kInt8 };

/// True if the kernels for such latents have products for the unit: kFma (plain vectors) for both;
/// kBf16Dot and kAmxBf16 for 16 bits, kVnni512, kVnni256 and kAmxInt8 for int8.
bool LatentUnitServes(DotUnit unit, LatentKind kind) noexcept;

/// For the whole process and the kind of latents that the unit serves; kFma, which both start with,
/// for both. The caller has found the unit usable in every thread that will run kernels
/// (TryDotUnit). Throws kInternal for a build that lacks it. Two limits: fp32 latents and 16-bit
/// ones that are not bf16 with k_rope in fp16 stay with kFma, and int8 ones use a VNNI unit only on
/// an ISA of its width.
void SetLatentUnit(DotUnit unit);
DotUnit LatentUnit(LatentKind kind = LatentKind::k16Bit) noexcept;

/// What latent rows of an element type are multiplied with, by the names of DotUnitName, "pairs"
/// for int8 rows without a unit.
const char* LatentKernelName(Elem type) noexcept;

/// The products that rows of this format use, or null: those of kernels/latent.cc.
const Bf16Products* LatentProducts(const LatentFormat& format) noexcept;
/// Alike for int8 rows, or null: those of kernels/latent_int8.h.
const Int8TileProducts* LatentInt8Products(const LatentFormat& format) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_LATENT_UNIT_H_
