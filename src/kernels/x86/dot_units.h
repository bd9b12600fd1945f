// The dot-product units of x86 processors: which there are, whether they work, how fast they are.
// Called by: engine (machine probe), tests. Thread-safety: safe; a try proves the calling thread.
#ifndef MLA_KERNELS_X86_DOT_UNITS_H_
#define MLA_KERNELS_X86_DOT_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/x86/amx_tiles.h"
#include "kernels/x86/dot_product.h"

namespace mla {

/// kFma: fp32 multiply-adds on the ISA that is chosen at the moment, on every architecture. The
/// others exist on x86-64 only: VDPBF16PS on zmm, VPDPBUSD on zmm (AVX-512 VNNI) and on ymm
/// (AVX-VNNI), TDPBF16PS and TDPBSSD on tiles.
enum class DotUnit { kFma, kBf16Dot, kVnni512, kVnni256, kAmxBf16, kAmxInt8 };

inline constexpr DotUnit kDotUnits[] = {DotUnit::kFma,     DotUnit::kBf16Dot, DotUnit::kVnni512,
                                        DotUnit::kVnni256, DotUnit::kAmxBf16, DotUnit::kAmxInt8};

/// "fma", "bf16dot", "vnni512", "vnni256", "amx-bf16", "amx-int8".
const char* DotUnitName(DotUnit unit) noexcept;

/// True if a unit goes with an ISA name of kernels/isa.h that was forced: none wider than it. AMX
/// counts as AVX-512.
bool DotUnitFitsIsa(DotUnit unit, std::string_view isa) noexcept;

/// The words of CPUID and XCR0 that tell about units; all zero on other processors.
struct CpuWords {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0;
  uint32_t leaf7_1_eax = 0;
  uint32_t leaf1d_eax = 0;                                        ///< highest tile palette
  uint32_t leaf1d_1_eax = 0, leaf1d_1_ebx = 0, leaf1d_1_ecx = 0;  ///< palette 1
  uint64_t xcr0 = 0;                                              ///< 0 without OSXSAVE
};

/// What detection and tries stand on. Tests replace members to see every refusal.
struct DotUnitSystem {
  CpuWords (*cpu)();
  /// Asks the system to let this process use tiles: 0 or an errno.
  int (*request_tiles)();
  /// Runs the unit's product. Returns null, or why it did not. May fault: it is called guarded.
  const char* (*product)(DotUnit unit, DotProduct& product);
};

/// This machine. The permission for tiles is requested once per process.
const DotUnitSystem& RealDotUnitSystem() noexcept;

struct DotUnitSupport {
  bool named = false;   ///< CPUID names the instructions
  std::string why_not;  ///< empty: they may be used as far as CPUID and the system say
  bool detected() const { return why_not.empty(); }
};

/// CPUID, the register state that the system keeps (XCR0) and, for AMX, its permission.
DotUnitSupport DetectDotUnit(DotUnit unit, const DotUnitSystem& system = RealDotUnitSystem());

/// Runs a small known product with odd sizes in the calling thread and compares it with plain
/// arithmetic, bit by bit. Survives illegal instructions (kernels/x86/fault_guard.h). Returns why
/// the unit is not usable, or "". A unit that is not detected is not run.
std::string TryDotUnit(DotUnit unit, const DotUnitSystem& system = RealDotUnitSystem());

/// Runs `rounds` rounds of independent products from registers and returns the operations done,
/// two per multiply-add. Only for a unit that TryDotUnit found usable in this thread.
int64_t PeakLoop(DotUnit unit, int64_t rounds) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_X86_DOT_UNITS_H_
