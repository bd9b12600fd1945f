#include "kernels/latent_unit.h"

#include "base/check.h"
#include "kernels/latent_int8.h"

namespace mla {
namespace {

const Bf16Products* ProductsOf(DotUnit unit) noexcept {
  if (unit == DotUnit::kBf16Dot) return Bf16DotProducts();
  return unit == DotUnit::kAmxBf16 ? AmxBf16Products() : nullptr;
}

bool Built(DotUnit unit) noexcept {
  if (unit == DotUnit::kFma) return true;
  if (unit == DotUnit::kBf16Dot || unit == DotUnit::kAmxBf16) return ProductsOf(unit) != nullptr;
  // The VNNI units go with the same processors.
  return AmxInt8Products() != nullptr;
}

}  // namespace

bool LatentUnitServes(DotUnit unit, LatentKind kind) noexcept {
  switch (unit) {
    case DotUnit::kFma:
      return true;
    case DotUnit::kBf16Dot:
    case DotUnit::kAmxBf16:
      return kind == LatentKind::k16Bit;
    case DotUnit::kVnni512:
    case DotUnit::kVnni256:
    case DotUnit::kAmxInt8:
      return kind == LatentKind::kInt8;
  }
  return false;
}

LatentUnits& LatentUnits::Use(DotUnit unit) {
  Require(Built(unit), "LatentUnits: this build has no latent kernels for the unit");
  if (LatentUnitServes(unit, LatentKind::k16Bit)) of_16_bits = unit;
  if (LatentUnitServes(unit, LatentKind::kInt8)) of_int8 = unit;
  return *this;
}

const char* LatentKernelName(const LatentFormat& format) noexcept {
  if (format.type == Elem::kInt8) return Int8LatentFamily(format.unit);
  return DotUnitName(LatentProducts(format) != nullptr ? format.unit : DotUnit::kFma);
}

const Bf16Products* LatentProducts(const LatentFormat& format) noexcept {
  return LatentBf16Takes(format) ? ProductsOf(format.unit) : nullptr;
}

const Int8TileProducts* LatentInt8Products(const LatentFormat& format) noexcept {
  const bool tiles = format.type == Elem::kInt8 && format.unit == DotUnit::kAmxInt8;
  return tiles ? AmxInt8Products() : nullptr;
}

}  // namespace mla
