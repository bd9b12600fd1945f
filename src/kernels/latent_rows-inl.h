// Pieces of stored latent rows as fp32 vectors, and the order of their columns. Re-included once
// per target.
// Called by: kernels/latent.cc and what it includes. Thread-safety: pure functions on their
// arguments.

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

// Columns that the scores take at a time, twice (one piece is widened while another is used), and
// vectors of columns that the output takes: both stay in the L1 cache with what they meet there.
inline constexpr int64_t kPieceColumns = 64;
inline constexpr int64_t kOutputPanels = 6;
// Rows between the panels of a piece: one more than a tile has, so that equal rows of two panels do
// not share the low 12 bits of their address.
inline constexpr int64_t kPanelRows = kLatentRunRows + 1;
// Two pieces of the scores, or one of the output. Vectors may have one lane only.
inline constexpr int64_t kPieceFloats =
    kPanelRows * std::max<int64_t>(2 * kPieceColumns, kOutputPanels*(HWY_MAX_BYTES / 4));

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

// Widens `pairs` whole pairs of vectors of the first `rows` rows one row and pair at a time, in
// between other work that leaves the load and store units idle.
template <class T>
class Feed {
 public:
  Feed(const char* data, int64_t row_bytes, int64_t rows, int64_t column, int64_t pairs,
       float* piece)
      : from_(data + column * static_cast<int64_t>(sizeof(T))),
        row_bytes_(row_bytes),
        rows_(rows),
        in_pair_(rows),
        left_(rows * pairs),
        to_(piece) {}

  HWY_INLINE void Step() {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(DF()));
    if (left_ == 0) return;
    VF a, b;
    UnpackPair(reinterpret_cast<const T*>(from_), a, b);
    hn::StoreU(a, DF(), to_);
    hn::StoreU(b, DF(), to_ + kPanelRows * lanes);
    --left_;
    from_ += row_bytes_;
    to_ += lanes;
    if (--in_pair_ == 0) {
      in_pair_ = rows_;
      from_ += 2 * lanes * static_cast<int64_t>(sizeof(T)) - rows_ * row_bytes_;
      to_ += (2 * kPanelRows - rows_) * lanes;
    }
  }
  HWY_INLINE void Drain() {
    while (left_ > 0) Step();
  }

 private:
  const char* from_;
  int64_t row_bytes_, rows_, in_pair_, left_;
  float* to_;
};
struct NoFeed {
  HWY_INLINE void Step() {}
  HWY_INLINE void Drain() {}
};

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
