// Which units the latent kernels use, for 16-bit latents and for int8 ones.
// Called by: engine (chooses them after the probe), attention, kernels/latent*.cc, tests.
// Thread-safety: values and pure functions.
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

/// The units that one model's latents use. Whoever fills it in has found them usable in every
/// thread that will run kernels (TryDotUnit).
struct LatentUnits {
  DotUnit of_16_bits = DotUnit::kFma;
  DotUnit of_int8 = DotUnit::kFma;

  /// Takes the unit for the kinds of latents that it serves. Throws kInternal if this build has no
  /// kernels for it.
  LatentUnits& Use(DotUnit unit);
  DotUnit For(Elem type) const noexcept { return type == Elem::kInt8 ? of_int8 : of_16_bits; }
};

/// What rows of this format are multiplied with, by the names of DotUnitName; "pairs" for int8 rows
/// without a unit. Two limits: fp32 latents and 16-bit ones that are not bf16 with k_rope in fp16
/// stay with kFma, and int8 ones use a VNNI unit only on an ISA of its width.
const char* LatentKernelName(const LatentFormat& format) noexcept;

/// The products that rows of this format use, or null: those of kernels/latent.cc.
const Bf16Products* LatentProducts(const LatentFormat& format) noexcept;
/// Alike for int8 rows, or null: those of kernels/latent_int8.h.
const Int8TileProducts* LatentInt8Products(const LatentFormat& format) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_LATENT_UNIT_H_
