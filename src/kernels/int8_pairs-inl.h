// Products of pairs of 16-bit integers, and int8 rows laid out for them. Re-included once per
// target.
// Called by: kernels/latent_int8.cc, int8_products-inl.h. Thread-safety: pure functions.

// clang-format off
#if defined(MLA_KERNELS_INT8_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLA_KERNELS_INT8_PAIRS_INL_H_
#undef MLA_KERNELS_INT8_PAIRS_INL_H_
#else
#define MLA_KERNELS_INT8_PAIRS_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cstring>

#include <hwy/highway.h>

#include "kernels/latent.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

using DI = hn::RebindToSigned<DF>;
using VI = hn::Vec<DI>;

inline constexpr int64_t kMaxLanes = HWY_MAX_BYTES / sizeof(float);
// Pieces that stay in the L1 cache: columns of the scores, vectors of columns of the output.
inline constexpr int64_t kScorePieceColumns = 128;
inline constexpr int64_t kScoreStride = kScorePieceColumns / 2;
inline constexpr int64_t kScorePieceWords = kLatentRunRows * kScoreStride;
inline constexpr int64_t kInt8Panels = 8;
inline constexpr int64_t kPanelWords = kLatentRunRows / 2 * kMaxLanes;
inline constexpr int64_t kOutputPieceWords = kInt8Panels * kPanelWords;
inline constexpr int64_t kRopePieceColumns = kScoreStride;

// Width in bits of the dot unit's vectors on this target; 0: it has none.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr int kDotPairsUnit = 512;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kDotPairsUnit = 256;
#else
inline constexpr int kDotPairsUnit = 0;
#endif
inline constexpr bool kHasDotPairsUnit = kDotPairsUnit != 0;

// acc + a.low · b.low + a.high · b.high in each 32-bit lane, exact as long as that fits.
template <bool kUnit>
HWY_INLINE VI DotPairs(VI acc, VI a, VI b) {
  // As assembly: the instruction set that the rest of this target is compiled for lacks it.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if constexpr (kUnit) {
    asm("vpdpwssd %2, %1, %0" : "+v"(acc.raw) : "v"(a.raw), "v"(b.raw));
    return acc;
  } else {
    return VI{_mm512_add_epi32(acc.raw, _mm512_madd_epi16(a.raw, b.raw))};
  }
#elif HWY_TARGET == HWY_AVX2
  if constexpr (kUnit) {
    asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(acc.raw) : "x"(a.raw), "x"(b.raw));
    return acc;
  } else {
    return VI{_mm256_add_epi32(acc.raw, _mm256_madd_epi16(a.raw, b.raw))};
  }
#elif HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
  return VI{_mm_add_epi32(acc.raw, _mm_madd_epi16(a.raw, b.raw))};
#elif HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
  const int16x8_t x = vreinterpretq_s16_s32(a.raw);
  const int16x8_t y = vreinterpretq_s16_s32(b.raw);
  const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
  return VI(vaddq_s32(acc.raw, vpaddq_s32(low, vmull_high_s16(x, y))));
#else
  const auto low = [](VI v) { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  const auto high = [](VI v) { return hn::ShiftRight<16>(v); };
  return hn::Add(acc, hn::Add(hn::Mul(low(a), low(b)), hn::Mul(high(a), high(b))));
#endif
}

HWY_INLINE int32_t PairOf(int8_t low, int8_t high) {
  return static_cast<int32_t>((static_cast<uint32_t>(low) & 0xffffu) | static_cast<uint32_t>(high)
                                                                           << 16);
}

// 2 · lanes columns of a row, `left` of which exist, as pairs side by side.
HWY_INLINE const int8_t* WholeChunk(const int8_t* from, int64_t left, int64_t chunk,
                                    int8_t* HWY_RESTRICT copy) {
  if (left >= chunk) return from;
  std::memset(copy, 0, static_cast<size_t>(chunk));
  std::memcpy(copy, from, static_cast<size_t>(left));
  return copy;
}

// Pairs of columns from `column` on: piece [rows][kScoreStride]. Columns beyond the width are 0.
HWY_INLINE void WidenColumns(const int8_t* data, int64_t row_bytes, int64_t rows, int64_t width,
                             int64_t column, int64_t words, int32_t* HWY_RESTRICT piece) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DI()));
  int8_t copy[2 * kMaxLanes];
  for (int64_t row = 0; row < rows; ++row) {
    const int8_t* from = data + row * row_bytes + column;
    int32_t* to = piece + row * kScoreStride;
    for (int64_t word = 0; word < words; word += lanes) {
      const int8_t* chunk = WholeChunk(from + 2 * word, width - column - 2 * word, 2 * lanes, copy);
#if HWY_TARGET == HWY_SCALAR
      to[word] = PairOf(chunk[0], chunk[1]);
#else
      const hn::Repartition<int16_t, DI> d16;
      const hn::Rebind<int8_t, decltype(d16)> d8;
      hn::StoreU(hn::BitCast(DI(), hn::PromoteTo(d16, hn::LoadU(d8, chunk))), DI(), to + word);
#endif
    }
  }
}

// Two rows, element by element, in `panels` (an even number of) vectors of columns: piece
// [panels][kPanelWords: kLatentRunRows / 2][lanes]. Rows and columns beyond the given are 0; see
// InterleavedColumn for the order of columns.
HWY_INLINE void InterleaveRows(const int8_t* data, int64_t row_bytes, int64_t rows, int64_t width,
                               int64_t column, int64_t panels, int32_t* HWY_RESTRICT piece) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DI()));
  int8_t copy_a[2 * kMaxLanes], copy_b[2 * kMaxLanes];
  for (int64_t row = 0; row < rows; row += 2) {
    const int8_t* from = data + row * row_bytes + column;
    int32_t* to = piece + row / 2 * lanes;
    for (int64_t panel = 0; panel < panels; panel += 2) {
      const int64_t left = width - column - panel * lanes;
      const int8_t* a = WholeChunk(from + panel * lanes, left, 2 * lanes, copy_a);
      const int8_t* b = row + 1 < rows
                            ? WholeChunk(from + row_bytes + panel * lanes, left, 2 * lanes, copy_b)
                            : WholeChunk(from, 0, 2 * lanes, copy_b);
#if HWY_TARGET == HWY_SCALAR
      to[panel * kPanelWords] = PairOf(a[0], b[0]);
      to[(panel + 1) * kPanelWords] = PairOf(a[1], b[1]);
#else
      const DI d;
      const hn::Repartition<int16_t, DI> d16;
      const hn::Rebind<int8_t, decltype(d16)> d8;
      const auto x = hn::PromoteTo(d16, hn::LoadU(d8, a));
      const auto y = hn::PromoteTo(d16, hn::LoadU(d8, b));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, x, y)), d, to + panel * kPanelWords);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, x, y)), d, to + (panel + 1) * kPanelWords);
#endif
    }
  }
}

// Where column x of a row stands after InterleaveRows: of each 128-bit block of columns, the first
// four are in the first of two vectors and the others in the second.
HWY_INLINE int64_t InterleavedColumn(int64_t x, int64_t lanes) {
  if (lanes < 4) return x;
  const int64_t chunk = x / (2 * lanes), within = x % (2 * lanes);
  return chunk * 2 * lanes + within % 8 / 4 * lanes + within / 8 * 4 + within % 4;
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#endif  // include guard toggled per target
