#include "kernels/x86/dot_units.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/core.h>

#include "kernels/peak.h"
#include "kernels/x86/dot_vectors.h"
#include "kernels/x86/fault_guard.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mla {
namespace {

// Bits of XCR0: SSE and AVX; opmask and both halves of the upper zmm state; tile configuration and
// data (Intel SDM volume 1, 13.1).
constexpr uint64_t kAvxState = 0x6;
constexpr uint64_t kAvx512State = 0xe6;
constexpr uint64_t kTileState = 0x60000;

constexpr uint32_t Bit(int n) { return uint32_t{1} << n; }

bool IsTileUnit(DotUnit unit) { return unit == DotUnit::kAmxBf16 || unit == DotUnit::kAmxInt8; }

CpuWords ReadCpu() {
  CpuWords words;
#if defined(__x86_64__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) words.leaf1_ecx = c;
  uint32_t highest = 0;
  if (__get_cpuid_count(7, 0, &highest, &b, &c, &d) != 0) {
    words.leaf7_ebx = b;
    words.leaf7_ecx = c;
    words.leaf7_edx = d;
    if (highest >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) words.leaf7_1_eax = a;
  }
  if (__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) != 0) words.leaf1d_eax = a;
  if (words.leaf1d_eax >= 1 && __get_cpuid_count(0x1d, 1, &a, &b, &c, &d) != 0) {
    words.leaf1d_1_eax = a;
    words.leaf1d_1_ebx = b;
    words.leaf1d_1_ecx = c;
  }
  if ((words.leaf1_ecx & Bit(27)) != 0) {  // OSXSAVE: XGETBV may be used
    uint32_t low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words.xcr0 = (uint64_t{high} << 32) | low;
  }
#endif
  return words;
}

// Of the whole process, for threads that run already too (Linux, Documentation/arch/x86/xstate).
int RequestTiles() {
#if defined(__x86_64__) && defined(__linux__)
  static const int result = [] {
    constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 0 : errno;
  }();
  return result;
#else
  return ENOSYS;
#endif
}

const char* RunProduct(DotUnit unit, DotProduct& product) {
  constexpr const char* kOther = "only x86-64 has it";
  switch (unit) {
    case DotUnit::kFma:
      break;
    case DotUnit::kBf16Dot:
      return VectorProduct(DotVector::kBf16Zmm, product) ? nullptr : kOther;
    case DotUnit::kVnni512:
      return VectorProduct(DotVector::kIntZmm, product) ? nullptr : kOther;
    case DotUnit::kVnni256:
      return VectorProduct(DotVector::kIntYmm, product) ? nullptr : kOther;
    case DotUnit::kAmxBf16:
      return TileProduct(TileType::kBf16, product, RealTileOps());
    case DotUnit::kAmxInt8:
      return TileProduct(TileType::kInt8, product, RealTileOps());
  }
  return nullptr;
}

// The instructions that CPUID must name and the state that the system must keep.
struct Needs {
  bool named;
  uint64_t state;
  const char* flags;
};

Needs NeedsOf(DotUnit unit, const CpuWords& cpu) {
  const auto has = [](uint32_t word, uint32_t bits) { return (word & bits) == bits; };
  // AVX-512 F, BW, VL
  const bool avx512 = has(cpu.leaf7_ebx, Bit(16) | Bit(30) | Bit(31));
  switch (unit) {
    case DotUnit::kFma:
      break;
    case DotUnit::kBf16Dot:
      return {avx512 && has(cpu.leaf7_1_eax, Bit(5)), kAvx512State, "AVX512_BF16"};
    case DotUnit::kVnni512:
      return {avx512 && has(cpu.leaf7_ecx, Bit(11)), kAvx512State, "AVX512_VNNI"};
    case DotUnit::kVnni256:
      return {has(cpu.leaf7_ebx, Bit(5)) && has(cpu.leaf7_1_eax, Bit(4)), kAvxState, "AVX-VNNI"};
    case DotUnit::kAmxBf16:
      return {has(cpu.leaf7_edx, Bit(24) | Bit(22)), kTileState, "AMX-TILE with AMX-BF16"};
    case DotUnit::kAmxInt8:
      return {has(cpu.leaf7_edx, Bit(24) | Bit(25)), kTileState, "AMX-TILE with AMX-INT8"};
  }
  return {true, 0, "fp32"};
}

// Palette 1 as every processor with AMX has it. Checked, since a configuration that the processor
// does not take faults.
bool HasPalette(const CpuWords& cpu) {
  return cpu.leaf1d_eax >= 1 && cpu.leaf1d_1_eax == (1024u << 16 | 8192u) &&
         cpu.leaf1d_1_ebx == (8u << 16 | 64u) && (cpu.leaf1d_1_ecx & 0xffff) == 16;
}

// No size is a multiple of another or fills a tile or a vector.
constexpr int kRows = 5;
constexpr int kColumns = 11;
constexpr int kGroups = 9;

// Whole numbers, small enough that every sum is exact in fp32. Integers use most of their ranges:
// an operand taken with the other sign, or saturation in between, changes the result.
enum class Numbers { kBf16, kUnsignedBySigned, kSigned };  // A times B

Numbers NumbersOf(DotUnit unit) {
  if (unit == DotUnit::kBf16Dot || unit == DotUnit::kAmxBf16) return Numbers::kBf16;
  return unit == DotUnit::kAmxInt8 ? Numbers::kSigned : Numbers::kUnsignedBySigned;
}

int ValueA(Numbers numbers, int m, int k) {
  const int value = m * 7 + k * 5;
  return numbers == Numbers::kBf16 ? value % 17 : numbers == Numbers::kSigned ? value - 128 : value;
}
int ValueB(int k, int n) { return (k * 11 + n * 29) % 256 - 128; }
int StartC(int m, int n) { return m * 100 - n; }

void PutBf16(uint8_t* to, int value) {
  const float f = static_cast<float>(value);  // |value| <= 128: the lower half of its bits is zero
  uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof(bits));
  const uint16_t upper = static_cast<uint16_t>(bits >> 16);
  std::memcpy(to, &upper, sizeof(upper));
}

void PutC(uint8_t* to, Numbers numbers, int value) {
  const float f = static_cast<float>(value);
  const int32_t i = value;
  std::memcpy(to, numbers != Numbers::kBf16 ? static_cast<const void*>(&i) : &f, 4);
}

DotProduct KnownProduct(Numbers numbers) {
  const bool integers = numbers != Numbers::kBf16;
  DotProduct p;
  p.rows = kRows;
  p.columns = kColumns;
  p.groups = kGroups;
  // Behind the sizes: NaN as bf16 and as fp32, so that what is read there shows.
  std::memset(p.a, 0xff, sizeof(p.a));
  std::memset(p.b, 0xff, sizeof(p.b));
  std::memset(p.c, 0xff, sizeof(p.c));
  const int in_group = integers ? 4 : 2;
  for (int k = 0; k < kGroups * in_group; ++k) {
    const int group = k / in_group;
    const int part = k % in_group;
    for (int m = 0; m < kRows; ++m) {
      const int value = ValueA(numbers, m, k);
      if (integers) {
        p.a[m][k] = static_cast<uint8_t>(value);
      } else {
        PutBf16(p.a[m] + 2 * k, value);
      }
    }
    for (int n = 0; n < kColumns; ++n) {
      const int value = ValueB(k, n);
      if (integers) {
        p.b[group][4 * n + part] = static_cast<uint8_t>(value);
      } else {
        PutBf16(p.b[group] + 4 * n + 2 * part, value);
      }
    }
  }
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kColumns; ++n) PutC(p.c[m] + 4 * n, numbers, StartC(m, n));
  }
  return p;
}

// All of C, with what must stay as it is behind the sizes.
bool IsRight(const DotProduct& product, Numbers numbers) {
  const DotProduct before = KnownProduct(numbers);
  uint8_t want[16][64];
  std::memcpy(want, before.c, sizeof(want));
  const int depth = kGroups * (numbers != Numbers::kBf16 ? 4 : 2);
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kColumns; ++n) {
      int sum = StartC(m, n);
      for (int k = 0; k < depth; ++k) sum += ValueA(numbers, m, k) * ValueB(k, n);
      PutC(want[m] + 4 * n, numbers, sum);
    }
  }
  return std::memcmp(want, product.c, sizeof(want)) == 0;
}

// fp32 needs no operands: the peak loop itself has a known result, 1 in each lane of its sums.
const char* RunFma() {
  constexpr int64_t kRounds = 256;
  float sum = 0;
  const int64_t lanes = FmaPeakLoop(kRounds, &sum) / (2 * kRounds);
  return sum == static_cast<float>(lanes) ? nullptr : "its product is wrong";
}

struct Call {
  const DotUnitSystem* system;
  DotUnit unit;
  DotProduct product;
  const char* complaint;
};

void RunCall(void* argument) {
  Call& call = *static_cast<Call*>(argument);
  call.complaint =
      call.unit == DotUnit::kFma ? RunFma() : call.system->product(call.unit, call.product);
}

void ReleaseTiles(void*) { RealTileOps().release(); }

}  // namespace

const char* DotUnitName(DotUnit unit) noexcept {
  switch (unit) {
    case DotUnit::kFma:
      return "fma";
    case DotUnit::kBf16Dot:
      return "bf16dot";
    case DotUnit::kVnni512:
      return "vnni512";
    case DotUnit::kVnni256:
      return "vnni256";
    case DotUnit::kAmxBf16:
      return "amx-bf16";
    case DotUnit::kAmxInt8:
      return "amx-int8";
  }
  return "";
}

bool DotUnitFitsIsa(DotUnit unit, std::string_view isa) noexcept {
  if (unit == DotUnit::kFma) return true;
  return isa.starts_with("avx512") || (unit == DotUnit::kVnni256 && isa == "avx2");
}

const DotUnitSystem& RealDotUnitSystem() noexcept {
  static constexpr DotUnitSystem kSystem = {ReadCpu, RequestTiles, RunProduct};
  return kSystem;
}

DotUnitSupport DetectDotUnit(DotUnit unit, const DotUnitSystem& system) {
  const CpuWords cpu = system.cpu();
  const Needs needs = NeedsOf(unit, cpu);
  DotUnitSupport support;
  support.named = needs.named;
  if (!needs.named) {
    support.why_not = fmt::format("the processor does not name {}", needs.flags);
  } else if ((cpu.xcr0 & needs.state) != needs.state) {
    support.why_not = fmt::format(
        "the system does not keep its registers (XCR0 is {:#x}, expected the bits {:#x})", cpu.xcr0,
        needs.state);
  } else if (IsTileUnit(unit) && !HasPalette(cpu)) {
    support.why_not = "tile palette 1 (8 tiles of 16 rows of 64 bytes) is missing";
  } else if (const int error = IsTileUnit(unit) ? system.request_tiles() : 0; error != 0) {
    support.why_not =
        fmt::format("the system refuses the permission to use tiles ({})", std::strerror(error));
  }
  return support;
}

std::string TryDotUnit(DotUnit unit, const DotUnitSystem& system) {
  const DotUnitSupport support = DetectDotUnit(unit, system);
  if (!support.detected()) return support.why_not;
  const Numbers numbers = NumbersOf(unit);
  Call call = {&system, unit, KnownProduct(numbers), nullptr};
  const int signal = RunGuarded(RunCall, &call);
  if (signal != 0) {
    // It may have stopped with tiles in use, which each switch of threads would save from now on.
    if (IsTileUnit(unit)) RunGuarded(ReleaseTiles, nullptr);
    return signal == SIGILL ? "illegal instruction" : "the processor refused an instruction";
  }
  if (call.complaint != nullptr) return call.complaint;
  if (unit != DotUnit::kFma && !IsRight(call.product, numbers)) return "its product is wrong";
  return "";
}

int64_t PeakLoop(DotUnit unit, int64_t rounds) noexcept {
  switch (unit) {
    case DotUnit::kFma: {
      float sum = 0;
      return FmaPeakLoop(rounds, &sum);
    }
    case DotUnit::kBf16Dot:
      return VectorPeakLoop(DotVector::kBf16Zmm, rounds);
    case DotUnit::kVnni512:
      return VectorPeakLoop(DotVector::kIntZmm, rounds);
    case DotUnit::kVnni256:
      return VectorPeakLoop(DotVector::kIntYmm, rounds);
    case DotUnit::kAmxBf16:
      return TilePeakLoop(TileType::kBf16, rounds);
    case DotUnit::kAmxInt8:
      return TilePeakLoop(TileType::kInt8, rounds);
  }
  return 0;
}

}  // namespace mla
