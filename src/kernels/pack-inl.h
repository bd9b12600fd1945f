// Rows of stored elements turned into fp32 columns whose neighbours are the rows: what lets a
// product keep rows as lanes. Re-included once per target.
// Called by: kernels/matmul.cc, kernels/attend.cc. Thread-safety: pure functions.

// clang-format off
#if defined(MLA_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLA_KERNELS_PACK_INL_H_
#undef MLA_KERNELS_PACK_INL_H_
#else
#define MLA_KERNELS_PACK_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <type_traits>

#include <hwy/highway.h>

#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
using D4 = hn::CappedTag<float, 4>;

template <class T>
HWY_INLINE hn::Vec<D4> LoadFour(const T* p) {
  const D4 d;
  if constexpr (std::is_same_v<D4, DF>) {
    return LoadElems(d, p);
  } else if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(d, p);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D4>(), p));
  }
}

// Four rows from `r` on, whole vectors of columns [begin, end).
template <class T, class RowFn, class At>
HWY_INLINE void PackFourRows(RowFn row, int64_t r, int64_t begin, int64_t end, At at) {
  const D4 d;
  const hn::Repartition<double, D4> dd;
  constexpr int64_t kLanes = hn::MaxLanes(DF());
  const T* p[4];
  for (int i = 0; i < 4; ++i) p[i] = row(r + i);
  for (int64_t x = begin; x < end; x += kLanes) {
#pragma GCC unroll 4
    for (int64_t y = 0; y < kLanes; y += 4) {
      const auto a = LoadFour(p[0] + x + y), b = LoadFour(p[1] + x + y);
      const auto c = LoadFour(p[2] + x + y), e = LoadFour(p[3] + x + y);
      const auto ab_low = hn::BitCast(dd, hn::InterleaveLower(d, a, b));
      const auto ab_high = hn::BitCast(dd, hn::InterleaveUpper(d, a, b));
      const auto ce_low = hn::BitCast(dd, hn::InterleaveLower(d, c, e));
      const auto ce_high = hn::BitCast(dd, hn::InterleaveUpper(d, c, e));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, ab_low, ce_low)), d, at(x, y) + r);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, ab_low, ce_low)), d, at(x, y + 1) + r);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, ab_high, ce_high)), d, at(x, y + 2) + r);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, ab_high, ce_high)), d, at(x, y + 3) + r);
    }
  }
}
#endif

// at(x, y)[r] = element x + y of row(r) as fp32, for x + y < width and r < count; 0 for
// count <= r < padded. x is a whole number of vectors, 0 <= y < lanes.
template <class T, class RowFn, class At>
HWY_INLINE void PackTransposed(RowFn row, int64_t count, int64_t padded, int64_t width, At at) {
  constexpr int64_t kLanes = hn::MaxLanes(DF());
  const int64_t whole = kLanes < 4 ? 0 : width / kLanes * kLanes;
  const int64_t fours = kLanes < 4 ? 0 : count / 4 * 4;
#if HWY_TARGET != HWY_SCALAR
  // Columns at a time: what they are written to stays in the L1 cache until all rows are there.
  constexpr int64_t kBlock = 128;
  for (int64_t x = 0; x < whole; x += kBlock) {
    const int64_t end = std::min(whole, x + kBlock);
    for (int64_t r = 0; r < fours; r += 4) PackFourRows<T>(row, r, x, end, at);
  }
#endif
  for (int64_t x = 0; x < width; x += kLanes) {
    const int64_t begin = x < whole ? fours : 0;
    if (begin == padded) continue;
    for (int64_t y = 0; y < std::min(kLanes, width - x); ++y) {
      float* to = at(x, y);
      for (int64_t r = begin; r < padded; ++r) to[r] = r < count ? LoadElem(row(r) + x + y) : 0.0f;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#endif  // include guard toggled per target
