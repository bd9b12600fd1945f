#include "kernels/x86/latent_amx.h"

namespace mla {

#if defined(__x86_64__)
namespace {

// Assembler, for the reasons that amx_tiles.cc gives. Volatile keeps the instructions in order, the
// clobber keeps memory in step with them.
struct RealTiles {
  static void LoadConfig(const TileConfig& config) {
    asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
  }
  static void Release() { asm volatile("tilerelease" : : : "memory"); }
  template <int T>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T) : "memory");
  }
  template <int T>
  static void Load(const void* base, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  static void Store(void* base, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(base), "r"(stride), "i"(T) : "memory");
  }
  // AT&T order: the second operand first, the sums last.
  template <int C, int A, int B>
  static void Dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B) : "memory");
  }
};

}  // namespace

const Bf16Products* AmxBf16Products() noexcept {
  static constexpr Bf16Products kProducts = LatentAmx<RealTiles>::Products();
  return &kProducts;
}
#else
const Bf16Products* AmxBf16Products() noexcept { return nullptr; }
#endif

}  // namespace mla
