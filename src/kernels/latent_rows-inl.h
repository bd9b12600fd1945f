// Pieces of stored latent rows as fp32 vectors, and the order of their columns. Re-included once
// per target.
// Called by: kernels/latent.cc. Thread-safety: pure functions on their arguments.

// clang-format off
#if defined(MLA_KERNELS_LATENT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLA_KERNELS_LATENT_ROWS_INL_H_
#undef MLA_KERNELS_LATENT_ROWS_INL_H_
#else
#define MLA_KERNELS_LATENT_ROWS_INL_H_
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

// Columns of a piece that the scores take at a time, and vectors of columns that the output does:
// both stay in the L1 cache with what they meet there.
inline constexpr int64_t kPieceColumns = 64;
inline constexpr int64_t kOutputPanels = 6;
// Rows between the panels of a piece: one more than a tile has, so that equal rows of two panels do
// not share the low 12 bits of their address.
inline constexpr int64_t kPanelRows = kLatentTileRows + 1;
inline constexpr int64_t kPieceFloats = kOutputPanels * kPanelRows * (HWY_MAX_BYTES / 4);

HWY_INLINE int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Two vectors' worth of columns. A bf16 pair is split by a shift and a mask, one instruction per
// vector, which leaves the even columns in the first and the odd ones in the second.
HWY_INLINE void UnpackPair(const hwy::bfloat16_t* p, VF& a, VF& b) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
#if HWY_TARGET == HWY_SCALAR
  // Rows are aligned to their elements only.
  uint32_t pair;
  std::memcpy(&pair, p, sizeof(pair));
  const auto pairs = hn::Set(du, pair);
#else
  const auto pairs = hn::LoadU(du, reinterpret_cast<const uint32_t*>(p));
#endif
  a = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
  b = hn::BitCast(d, hn::And(pairs, hn::Set(du, 0xffff0000u)));
}
template <class T>
HWY_INLINE void UnpackPair(const T* p, VF& a, VF& b) {
  const DF d;
  a = LoadElems(d, p);
  b = LoadElems(d, p + hn::Lanes(d));
}

// fn(x, where column x stands after UnpackPair) for the columns of a row.
template <class Fn>
HWY_INLINE void ForEachPackedColumn(Elem type, int64_t width, Fn fn) {
  if (type != Elem::kBf16) {
    for (int64_t x = 0; x < width; ++x) fn(x, x);
    return;
  }
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DF()));
  for (int64_t first = 0; first < width; first += 2 * lanes) {
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t x = first + 2 * i;
      if (x < width) fn(x, first + i);
      if (x + 1 < width) fn(x + 1, first + lanes + i);
    }
  }
}

// `panels` (an even number of) vectors of packed columns from `column` on, of `rows` rows of
// `width` columns: piece [panels][kPanelRows][lanes]. Columns beyond the width are 0.
template <class T>
void WidenRows(const char* data, int64_t row_bytes, int64_t rows, int64_t width, int64_t column,
               int64_t panels, float* HWY_RESTRICT piece) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = std::min(panels, (width - column) / (2 * lanes) * 2);
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = reinterpret_cast<const T*>(data + row * row_bytes) + column;
    float* to = piece + row * lanes;
    for (int64_t panel = 0; panel < whole; panel += 2) {
      VF a, b;
      UnpackPair(from + panel * lanes, a, b);
      hn::StoreU(a, d, to + panel * kPanelRows * lanes);
      hn::StoreU(b, d, to + (panel + 1) * kPanelRows * lanes);
    }
    if (whole < panels) {
      T tail[2 * HWY_MAX_BYTES / sizeof(float)] = {};
      const int64_t left = width - column - whole * lanes;
      std::memcpy(tail, from + whole * lanes, static_cast<size_t>(left) * sizeof(T));
      VF a, b;
      UnpackPair(tail, a, b);
      hn::StoreU(a, d, to + whole * kPanelRows * lanes);
      hn::StoreU(b, d, to + (whole + 1) * kPanelRows * lanes);
    }
  }
}

HWY_INLINE void Widen(Elem type, const char* data, int64_t row_bytes, int64_t rows, int64_t width,
                      int64_t column, int64_t panels, float* piece) {
  WithElem(type, data, [&](const auto* typed) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    WidenRows<T>(data, row_bytes, rows, width, column, panels, piece);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#endif  // include guard toggled per target
