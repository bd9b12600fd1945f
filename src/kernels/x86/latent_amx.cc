#include "kernels/x86/latent_amx.h"

#if defined(__x86_64__)
#include "kernels/x86/real_tiles.h"
#endif

namespace mla {

#if defined(__x86_64__)
const Bf16Products* AmxBf16Products() noexcept {
  static constexpr Bf16Products kProducts = LatentAmx<RealTiles>::Products();
  return &kProducts;
}
#else
const Bf16Products* AmxBf16Products() noexcept { return nullptr; }
#endif

}  // namespace mla
