#include "kernels/x86/dot_vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#endif

namespace mla {

#if defined(__x86_64__)
namespace {

// Attributes on each function, not flags on the file: an inline function compiled with such a flag
// could be the copy that the linker keeps for everybody.
#define MLA_BF16_ZMM __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define MLA_INT_ZMM __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define MLA_INT_YMM __attribute__((target("avx2,avxvnni")))

int32_t Group(const DotProduct& p, int row, int group) {
  int32_t bytes = 0;
  std::memcpy(&bytes, p.a[row] + 4 * group, sizeof(bytes));
  return bytes;
}

MLA_BF16_ZMM void ProductBf16Zmm(DotProduct& p) {
  for (int m = 0; m < p.rows; ++m) {
    __m512 sum = _mm512_load_ps(p.c[m]);
    for (int g = 0; g < p.groups; ++g) {
      const __m512i a = _mm512_set1_epi32(Group(p, m, g));
      const __m512i b = _mm512_load_si512(p.b[g]);
      sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
    }
    alignas(64) float row[16];
    _mm512_store_ps(row, sum);
    std::memcpy(p.c[m], row, 4 * static_cast<size_t>(p.columns));
  }
}

MLA_INT_ZMM void ProductIntZmm(DotProduct& p) {
  for (int m = 0; m < p.rows; ++m) {
    __m512i sum = _mm512_load_si512(p.c[m]);
    for (int g = 0; g < p.groups; ++g) {
      sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(Group(p, m, g)), _mm512_load_si512(p.b[g]));
    }
    alignas(64) int32_t row[16];
    _mm512_store_si512(row, sum);
    std::memcpy(p.c[m], row, 4 * static_cast<size_t>(p.columns));
  }
}

MLA_INT_YMM void ProductIntYmm(DotProduct& p) {
  const auto load = [](const uint8_t* bytes) { return reinterpret_cast<const __m256i*>(bytes); };
  for (int m = 0; m < p.rows; ++m) {
    __m256i low = _mm256_load_si256(load(p.c[m]));
    __m256i high = _mm256_load_si256(load(p.c[m] + 32));
    for (int g = 0; g < p.groups; ++g) {
      const __m256i a = _mm256_set1_epi32(Group(p, m, g));
      low = _mm256_dpbusd_avx_epi32(low, a, _mm256_load_si256(load(p.b[g])));
      high = _mm256_dpbusd_avx_epi32(high, a, _mm256_load_si256(load(p.b[g] + 32)));
    }
    alignas(32) int32_t row[16];
    _mm256_store_si256(reinterpret_cast<__m256i*>(row), low);
    _mm256_store_si256(reinterpret_cast<__m256i*>(row + 8), high);
    std::memcpy(p.c[m], row, 4 * static_cast<size_t>(p.columns));
  }
}

// Two ports and a latency of 4 to 6 cycles: twelve independent sums, as in kernels/peak.cc, each a
// variable of its own with a starting value of its own.
constexpr int64_t kSums = 12;
#define MLA_TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
// The optimiser must keep the sums: somebody might look at them.
#define MLA_KEEP_ZMM(i) asm volatile("" : : "v"(s##i));
#define MLA_KEEP_YMM(i) asm volatile("" : : "x"(s##i));

MLA_BF16_ZMM int64_t PeakBf16Zmm(int64_t rounds) {
  // Pairs of 1 and -1: the sums stay where they are.
  const auto a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f803f80));
  const auto b = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(0xbf803f80)));
#define MLA_START(i) __m512 s##i = _mm512_set1_ps(i);
#define MLA_STEP(i) s##i = _mm512_dpbf16_ps(s##i, a, b);
  MLA_TWELVE(MLA_START)
  for (int64_t round = 0; round < rounds; ++round) {
    MLA_TWELVE(MLA_STEP)
  }
  MLA_TWELVE(MLA_KEEP_ZMM)
#undef MLA_START
#undef MLA_STEP
  return rounds * kSums * 32 * 2;
}

MLA_INT_ZMM int64_t PeakIntZmm(int64_t rounds) {
  const __m512i a = _mm512_set1_epi8(3);
#define MLA_START(i) __m512i s##i = _mm512_set1_epi32(i);
#define MLA_STEP(i) s##i = _mm512_dpbusd_epi32(s##i, a, a);
  MLA_TWELVE(MLA_START)
  for (int64_t round = 0; round < rounds; ++round) {
    MLA_TWELVE(MLA_STEP)
  }
  MLA_TWELVE(MLA_KEEP_ZMM)
#undef MLA_START
#undef MLA_STEP
  return rounds * kSums * 64 * 2;
}

MLA_INT_YMM int64_t PeakIntYmm(int64_t rounds) {
  const __m256i a = _mm256_set1_epi8(3);
#define MLA_START(i) __m256i s##i = _mm256_set1_epi32(i);
#define MLA_STEP(i) s##i = _mm256_dpbusd_avx_epi32(s##i, a, a);
  MLA_TWELVE(MLA_START)
  for (int64_t round = 0; round < rounds; ++round) {
    MLA_TWELVE(MLA_STEP)
  }
  MLA_TWELVE(MLA_KEEP_YMM)
#undef MLA_START
#undef MLA_STEP
  return rounds * kSums * 32 * 2;
}

}  // namespace

bool VectorProduct(DotVector type, DotProduct& product) noexcept {
  switch (type) {
    case DotVector::kBf16Zmm:
      ProductBf16Zmm(product);
      break;
    case DotVector::kIntZmm:
      ProductIntZmm(product);
      break;
    case DotVector::kIntYmm:
      ProductIntYmm(product);
      break;
  }
  return true;
}

int64_t VectorPeakLoop(DotVector type, int64_t rounds) noexcept {
  switch (type) {
    case DotVector::kBf16Zmm:
      return PeakBf16Zmm(rounds);
    case DotVector::kIntZmm:
      return PeakIntZmm(rounds);
    case DotVector::kIntYmm:
      return PeakIntYmm(rounds);
  }
  return 0;
}

#else

bool VectorProduct(DotVector, DotProduct&) noexcept { return false; }
int64_t VectorPeakLoop(DotVector, int64_t) noexcept { return 0; }

#endif

}  // namespace mla
