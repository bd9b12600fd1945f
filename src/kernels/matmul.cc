#include "kernels/matmul.h"

#include <algorithm>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "kernels/pack-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

template <int MR, class T>
void NtRows(const MatmulArgs& g, const T* b, int64_t row) {
  constexpr int kNr = MR == 1 ? kSingleRowColumns : kColumns;
  const float* a[MR];
  for (int i = 0; i < MR; ++i) {
    a[i] = g.a + (g.a_rows != nullptr ? g.a_rows[row + i] : row + i) * g.a_stride;
  }
  float* c = g.c + row * g.c_stride;
  int64_t column = 0;
  const auto sink = [&](int i, int j, float sum) {
    float* at = c + i * g.c_stride + column + j;
    if (g.bias != nullptr) sum += g.bias[column + j];
    *at = g.accumulate ? *at + sum : sum;
  };
  for (; column + kNr <= g.n; column += kNr) {
    DotTile<MR, kNr>(a, b + column * g.b_stride, g.b_stride, g.k, sink);
  }
  for (; column < g.n; ++column) {
    DotTile<MR, 1>(a, b + column * g.b_stride, g.b_stride, g.k, sink);
  }
}

// Many rows (docs/kernels/gemm.md). Columns of C are the lanes, so that a sum is a chain of
// multiply-adds on broadcast elements of A. The order is DotTile's all the same, bit for bit: its
// sum has one chain per lane, over every lanes-th element, and adds the chains up as a tree. Here
// each chain is run on its own, and partial sums wait until their sibling in the tree is there.
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || \
    HWY_TARGET == HWY_EMU128
inline constexpr int kPackedRows = 6;
// Where half the width of panels makes the packing of A cost more than it saves.
inline constexpr int64_t kPackedMostK = 1024;
#else
inline constexpr int kPackedRows = 12;
inline constexpr int64_t kPackedMostK = int64_t{1} << 40;
#endif
inline constexpr int kPackedVectors = 2;
inline constexpr int64_t kMaxLanes = HWY_MAX_BYTES / 4;
inline constexpr int64_t kTileFloats = kPackedRows * kPackedVectors * kMaxLanes;

// A few rows of A or B as the chains see them: chain c in the order in which the tree takes them,
// [steps][rows] each; then the elements beyond the last whole vector, [tail][rows].
struct Packed {
  // Not a member: the divisions by it would be real ones.
  static HWY_INLINE int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(DF())); }

  Packed(int64_t k, int64_t row_count)
      : rows(row_count),
        steps(k / Lanes()),
        tail(k % Lanes()),
        // Not a power of two: chains are written side by side, and must not share a cache set.
        chain((steps * rows + 31) / 16 * 16) {}

  int64_t Floats() const { return Lanes() * chain + (tail * rows + 15) / 16 * 16; }
  // Which chain is the tree's leaf p, and the reverse: within a block of four (0, 2, 1, 3), blocks
  // likewise if there are four.
  static HWY_INLINE int64_t Leaf(int64_t p) {
    const auto swapped = [](int64_t i) { return (i & 1) << 1 | i >> 1; };
    if (Lanes() < 4) return p;
    return (Lanes() == 16 ? swapped(p >> 2) : p >> 2) * 4 + swapped(p & 3);
  }
  // Where element x + y goes, x a whole number of vectors.
  HWY_INLINE float* At(float* base, int64_t x, int64_t y) const {
    const int64_t step = x / Lanes();
    if (step == steps) return base + Lanes() * chain + y * rows;
    return base + Leaf(y) * chain + step * rows;
  }

  int64_t rows, steps, tail, chain;
};

// sums [MR][kPackedVectors][lanes] = the products of MR packed rows and a packed panel.
template <int MR>
HWY_NOINLINE void ChainTile(const Packed& ap, const float* HWY_RESTRICT a, const Packed& bp,
                            const float* HWY_RESTRICT b, float* HWY_RESTRICT sums) {
  constexpr int kNv = kPackedVectors;
  const DF d;
  const int64_t lanes = Packed::Lanes();
  // Sums of a leaf, of two, of four ... that wait for their sibling.
  HWY_ALIGN float waiting[5][kTileFloats];
  for (int64_t p = 0; p < lanes; ++p) {
    VF acc[MR][kNv];
    for (int i = 0; i < MR; ++i) {
      for (int j = 0; j < kNv; ++j) acc[i][j] = hn::Zero(d);
    }
    const float* ax = a + p * ap.chain;
    const float* bx = b + p * bp.chain;
    for (int64_t t = 0; t < ap.steps; ++t) {
      VF bv[kNv];
      for (int j = 0; j < kNv; ++j) bv[j] = InRegister(hn::LoadU(d, bx + j * lanes));
      for (int i = 0; i < MR; ++i) {
        const VF av = InRegister(hn::Set(d, ax[i]));
        for (int j = 0; j < kNv; ++j) acc[i][j] = hn::MulAdd(av, bv[j], acc[i][j]);
      }
      ax += ap.rows;
      bx += kNv * lanes;
    }
    int level = 0;
    for (; (p >> level & 1) != 0; ++level) {
      for (int i = 0; i < MR; ++i) {
        for (int j = 0; j < kNv; ++j) {
          acc[i][j] = hn::Add(hn::LoadU(d, waiting[level] + (i * kNv + j) * lanes), acc[i][j]);
        }
      }
    }
    float* to = p + 1 < lanes ? waiting[level] : sums;
    for (int i = 0; i < MR; ++i) {
      for (int j = 0; j < kNv; ++j) hn::StoreU(acc[i][j], d, to + (i * kNv + j) * lanes);
    }
  }
  const float* ax = a + lanes * ap.chain;
  const float* bx = b + lanes * bp.chain;
  for (int64_t t = 0; t < ap.tail; ++t) {
    for (int i = 0; i < MR; ++i) {
      for (int j = 0; j < kNv; ++j) {
        float* at = sums + (i * kNv + j) * lanes;
        const VF product =
            hn::Mul(hn::Set(d, ax[t * ap.rows + i]), hn::LoadU(d, bx + (t * kNv + j) * lanes));
        hn::StoreU(hn::Add(hn::LoadU(d, at), product), d, at);
      }
    }
  }
}

// C [rows, columns] from `at` on (+)= sums + bias, as NtRows does it.
void StoreTile(const MatmulArgs& g, const float* sums, int64_t rows, int64_t columns, int64_t width,
               const float* bias, float* at) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < rows; ++i, sums += width, at += g.c_stride) {
    int64_t j = 0;
    for (; j + lanes <= columns; j += lanes) {
      VF sum = hn::LoadU(d, sums + j);
      if (bias != nullptr) sum = hn::Add(sum, hn::LoadU(d, bias + j));
      if (g.accumulate) sum = hn::Add(hn::LoadU(d, at + j), sum);
      hn::StoreU(sum, d, at + j);
    }
    for (; j < columns; ++j) {
      float sum = sums[j];
      if (bias != nullptr) sum += bias[j];
      at[j] = g.accumulate ? at[j] + sum : sum;
    }
  }
}

// False if the scratch does not hold enough panels for the packing of A to pay.
template <class T>
bool NtPacked(const MatmulArgs& g, const T* b) {
  const int64_t width = kPackedVectors * static_cast<int64_t>(hn::Lanes(DF()));
  const Packed ap(g.k, (kPackedRows + 3) / 4 * 4);
  const Packed bp(g.k, width);
  const int64_t most = (g.scratch_floats - ap.Floats()) / bp.Floats();
  if (most < std::min<int64_t>(2, (g.n + width - 1) / width)) return false;
  if (g.scratch_floats < ap.Floats() || most < 1) return false;
  float* packed_a = g.scratch;
  float* panels = packed_a + ap.Floats();
  HWY_ALIGN float sums[kTileFloats];
  for (int64_t n = 0; n < g.n; n += most * width) {
    const int64_t columns = std::min(most * width, g.n - n);
    for (int64_t j = 0; j < columns; j += width) {
      float* panel = panels + j / width * bp.Floats();
      PackTransposed<T>([&](int64_t r) { return b + (n + j + r) * g.b_stride; },
                        std::min(width, columns - j), width, g.k,
                        [&](int64_t x, int64_t y) { return bp.At(panel, x, y); });
    }
    for (int64_t i = 0; i < g.m; i += kPackedRows) {
      const int64_t rows = std::min<int64_t>(kPackedRows, g.m - i);
      PackTransposed<float>(
          [&](int64_t r) {
            return g.a + (g.a_rows != nullptr ? g.a_rows[i + r] : i + r) * g.a_stride;
          },
          rows, ap.rows, g.k, [&](int64_t x, int64_t y) { return ap.At(packed_a, x, y); });
      for (int64_t j = 0; j < columns; j += width) {
        const float* panel = panels + j / width * bp.Floats();
        if (rows > kPackedRows * 2 / 3) {
          ChainTile<kPackedRows>(ap, packed_a, bp, panel, sums);
        } else if (rows > kPackedRows / 3) {
          ChainTile<kPackedRows * 2 / 3>(ap, packed_a, bp, panel, sums);
        } else {
          ChainTile<kPackedRows / 3>(ap, packed_a, bp, panel, sums);
        }
        StoreTile(g, sums, rows, std::min(width, columns - j), width,
                  g.bias != nullptr ? g.bias + n + j : nullptr, g.c + i * g.c_stride + n + j);
      }
    }
  }
  return true;
}

void Nt(const MatmulArgs& g) {
  WithElem(g.b_type, g.b, [&](const auto* b) {
    const bool pack = g.m >= kMatmulPackFrom && g.k <= kPackedMostK && g.scratch != nullptr;
    if (pack && NtPacked(g, b)) return;
    ForEachRowBlock(g.m, [&](auto rows, int64_t i) { NtRows<rows()>(g, b, i); });
  });
}

template <int MR, class T>
void NnRows(const MatmulArgs& g, const T* b, int64_t row) {
  float* c = g.c + row * g.c_stride;
  OuterRows<MR>(g.a + row * g.a_stride, g.a_stride, b, g.b_stride, g.k, nullptr, !g.accumulate, c,
                g.c_stride, g.n);
  if (g.bias == nullptr) return;
  for (int i = 0; i < MR; ++i) {
    for (int64_t x = 0; x < g.n; ++x) c[i * g.c_stride + x] += g.bias[x];
  }
}

void Nn(const MatmulArgs& g) {
  WithElem(g.b_type, g.b, [&](const auto* b) {
    ForEachRowBlock(g.m, [&](auto rows, int64_t i) { NnRows<rows()>(g, b, i); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {

HWY_EXPORT(Nt);
HWY_EXPORT(Nn);

void MatmulNt(const MatmulArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(Nt)(args); }
void MatmulNn(const MatmulArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(Nn)(args); }

}  // namespace mla
#endif  // HWY_ONCE
