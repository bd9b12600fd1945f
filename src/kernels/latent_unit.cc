#include "kernels/latent_unit.h"

#include <atomic>

#include "base/check.h"
#include "kernels/latent_int8.h"

namespace mla {
namespace {

std::atomic<DotUnit> unit_of_16_bits{DotUnit::kFma};
std::atomic<DotUnit> unit_of_int8{DotUnit::kFma};

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

void SetLatentUnit(DotUnit unit) {
  Require(Built(unit), "SetLatentUnit: this build has no latent kernels for the unit");
  if (LatentUnitServes(unit, LatentKind::k16Bit)) unit_of_16_bits.store(unit);
  if (LatentUnitServes(unit, LatentKind::kInt8)) unit_of_int8.store(unit);
}

DotUnit LatentUnit(LatentKind kind) noexcept {
  return kind == LatentKind::kInt8 ? unit_of_int8.load() : unit_of_16_bits.load();
}

const char* LatentKernelName(Elem type) noexcept {
  if (type == Elem::kInt8) return Int8LatentFamily();
  return DotUnitName(type == Elem::kBf16 ? LatentUnit() : DotUnit::kFma);
}

const Bf16Products* LatentProducts(const LatentFormat& format) noexcept {
  return LatentBf16Takes(format) ? ProductsOf(LatentUnit(LatentKind::k16Bit)) : nullptr;
}

const Int8TileProducts* LatentInt8Products(const LatentFormat& format) noexcept {
  const bool tiles =
      format.type == Elem::kInt8 && LatentUnit(LatentKind::kInt8) == DotUnit::kAmxInt8;
  return tiles ? AmxInt8Products() : nullptr;
}

}  // namespace mla
