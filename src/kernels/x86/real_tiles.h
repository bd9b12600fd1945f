// The tile instructions, as operations of the templates in latent_amx.h and latent_int8_tiles.h.
// Called by: kernels/x86/latent_*amx*.cc only, on x86-64. Thread-safety: tiles belong to the
// calling thread.
#ifndef MLA_KERNELS_X86_REAL_TILES_H_
#define MLA_KERNELS_X86_REAL_TILES_H_

#include "kernels/x86/amx_tiles.h"

namespace mla {

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
  template <int C, int A, int B>
  static void DotInt8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B) : "memory");
  }
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_REAL_TILES_H_
