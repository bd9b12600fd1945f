#include "kernels/latent_unit.h"

#include <atomic>

#include "base/check.h"

namespace mla {
namespace {

std::atomic<DotUnit> chosen_unit{DotUnit::kFma};

const Bf16Products* ProductsOf(DotUnit unit) noexcept {
  if (unit == DotUnit::kBf16Dot) return Bf16DotProducts();
  return unit == DotUnit::kAmxBf16 ? AmxBf16Products() : nullptr;
}

}  // namespace

void SetLatentUnit(DotUnit unit) {
  Require(unit == DotUnit::kFma || ProductsOf(unit) != nullptr,
          "SetLatentUnit: no kernels for 16-bit latents on this unit");
  chosen_unit.store(unit);
}

DotUnit LatentUnit() noexcept { return chosen_unit.load(); }

const Bf16Products* LatentProducts(const LatentFormat& format) noexcept {
  return LatentBf16Takes(format) ? ProductsOf(LatentUnit()) : nullptr;
}

}  // namespace mla
