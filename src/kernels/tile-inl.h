// Register tiles shared by the matrix products and attention. Re-included once
// per target. Called by: kernels/*.cc only. Thread-safety: pure functions.

// clang-format off
#if defined(MLA_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLA_KERNELS_TILE_INL_H_
#undef MLA_KERNELS_TILE_INL_H_
#else
#define MLA_KERNELS_TILE_INL_H_
#endif
// clang-format on

#include <bit>
#include <type_traits>

#include <hwy/highway.h>

#include "base/float16.h"
#include "kernels/elem.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

// Register tiles: kRows x kColumns accumulators, with kColumns vectors of the
// shared operand beside them. 24 + 3 of 32 registers, or 12 + 3 of 16.
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || \
    HWY_TARGET == HWY_EMU128
inline constexpr int kRows = 4;
#else
inline constexpr int kRows = 8;
#endif
inline constexpr int kColumns = 3;
// One row has nothing to share, so it takes more columns for the sake of
// independent sums.
inline constexpr int kSingleRowColumns = 4;

// Keeps a vector that several products share in a register. GCC 12 otherwise
// folds its load into each of them, and the loads become the bottleneck.
HWY_INLINE VF InRegister(VF v) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  asm("" : "+v"(v.raw));
#endif
  return v;
}

// One vector of stored elements as fp32.
HWY_INLINE VF LoadElems(DF d, const float* p) { return hn::LoadU(d, p); }
HWY_INLINE VF LoadElems(DF d, const hwy::bfloat16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, DF>(), p));
}
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE VF LoadElems(DF d, const hwy::float16_t* p) {
  return hn::Set(d, Fp16ToFloat(std::bit_cast<uint16_t>(*p)));
}
#elif HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128
// These have no conversion, and Highway's own emulation of it turns infinity
// and NaN into numbers.
HWY_INLINE VF LoadElems(DF d, const hwy::float16_t* p) {
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::PromoteTo(
      du, hn::LoadU(hn::Rebind<uint16_t, DF>(), reinterpret_cast<const uint16_t*>(p)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffu));
  // Exponent and mantissa at fp32's places, 2^112 too small; the product is
  // exact, also for subnormals.
  const VF scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
  const auto special = hn::Gt(magnitude, hn::Set(du, 0x7bffu));
  const auto exponent = hn::IfThenElseZero(special, hn::Set(du, 0x7f800000u));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(du, scaled), exponent), sign));
}
#else
HWY_INLINE VF LoadElems(DF d, const hwy::float16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, DF>(), p));
}
#endif
HWY_INLINE float LoadElem(const float* p) { return *p; }
HWY_INLINE float LoadElem(const hwy::bfloat16_t* p) { return Bf16ToFloat(p->bits); }
HWY_INLINE float LoadElem(const hwy::float16_t* p) {
  return Fp16ToFloat(std::bit_cast<uint16_t>(*p));
}

// Calls fn with a typed pointer to the stored data.
template <class Fn>
HWY_INLINE void WithElem(Elem type, const void* data, Fn fn) {
  switch (type) {
    case Elem::kF32:
      return fn(static_cast<const float*>(data));
    case Elem::kF16:
      return fn(static_cast<const hwy::float16_t*>(data));
    case Elem::kBf16:
      return fn(static_cast<const hwy::bfloat16_t*>(data));
    case Elem::kInt8:
      return;  // latent rows only, which kernels/latent_int8.cc reads
  }
}

// Fetches the next tile a few lines at a time, between the products of this one.
class Prefetcher {
 public:
  // `calls`: how often Next will be called, about.
  Prefetcher(const void* data, int64_t bytes, int64_t calls)
      : next_(static_cast<const char*>(data)),
        end_(next_ + (data != nullptr ? bytes : 0)),
        lines_((bytes / kLine + calls) / calls) {}

  HWY_INLINE void Next() {
    for (int64_t i = 0; i < lines_ && next_ < end_; ++i, next_ += kLine) {
      __builtin_prefetch(next_, 0, 2);
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  const char* next_;
  const char* end_;
  int64_t lines_;
};

// The sum of each of four vectors' lanes. The order is a tree: within a 128-bit
// block (0 + 2) + (1 + 3), then upper half onto lower half of the blocks.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void Sum4(DF, VF a, VF b, VF c, VF e, float* HWY_RESTRICT sums) {
  sums[0] = hn::GetLane(a);
  sums[1] = hn::GetLane(b);
  sums[2] = hn::GetLane(c);
  sums[3] = hn::GetLane(e);
}
#else
template <class D>
HWY_INLINE void AddBlocks(D d, hn::Vec<D> v, float* HWY_RESTRICT sums) {
#if HWY_HAVE_SCALABLE
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, lanes);
  for (size_t n = hn::Lanes(d); n > 4; n /= 2) {
    for (size_t i = 0; i < n / 2; ++i) lanes[i] += lanes[n / 2 + i];
  }
  for (int i = 0; i < 4; ++i) sums[i] = lanes[i];
#else
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    AddBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), sums);
  } else {
    hn::StoreU(v, d, sums);
  }
#endif
}

HWY_INLINE void Sum4(DF d, VF a, VF b, VF c, VF e, float* HWY_RESTRICT sums) {
  const hn::Repartition<double, DF> dd;
  const VF ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const VF ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto ab2 = hn::BitCast(dd, ab);
  const auto ce2 = hn::BitCast(dd, ce);
  AddBlocks(d,
            hn::Add(hn::BitCast(d, hn::InterleaveLower(dd, ab2, ce2)),
                    hn::BitCast(d, hn::InterleaveUpper(dd, ab2, ce2))),
            sums);
}
#endif

// sums[i, j] += the products from element `begin` on, where no whole vector is left. Kept out of
// line: most widths have no tail, and inlined it costs DotTile its registers.
template <int MR, int NR, class T>
HWY_NOINLINE void AddTails(const float* const (&a)[MR], const T* b, int64_t b_stride, int64_t begin,
                           int64_t k, float* sums) {
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NR; ++j) {
      float sum = sums[i * NR + j];
      for (int64_t y = begin; y < k; ++y) sum += a[i][y] * LoadElem(b + j * b_stride + y);
      sums[i * NR + j] = sum;
    }
  }
}

// sink(i, j, a_i · b_j) for MR rows of a and NR rows of b, each of length k.
// Every element is summed in the same order whatever MR and NR: results do not
// depend on the tiling.
template <int MR, int NR, class T, class Sink>
HWY_INLINE void DotTile(const float* const (&a)[MR], const T* HWY_RESTRICT b, int64_t b_stride,
                        int64_t k, Sink sink) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // A whole number of Sum4 groups; the surplus stays zero and costs nothing in
  // the loop.
  constexpr int kGroups = (MR * NR + 3) / 4;
  VF acc[kGroups * 4];
  for (int i = 0; i < kGroups * 4; ++i) acc[i] = hn::Zero(d);
  int64_t x = 0;
  for (; x + lanes <= k; x += lanes) {
    VF bv[NR];
    for (int j = 0; j < NR; ++j) bv[j] = LoadElems(d, b + j * b_stride + x);
    for (int i = 0; i < MR; ++i) {
      const VF av = InRegister(hn::LoadU(d, a[i] + x));
      for (int j = 0; j < NR; ++j) acc[i * NR + j] = hn::MulAdd(av, bv[j], acc[i * NR + j]);
    }
  }
  float sums[kGroups * 4];
  for (int i = 0; i < kGroups; ++i) {
    Sum4(d, acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3], sums + 4 * i);
  }
  if (x < k) AddTails<MR, NR>(a, b, b_stride, x, k, sums);
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NR; ++j) sink(i, j, sums[i * NR + j]);
  }
}

// Calls fn(std::integral_constant<int, MR>, first row) for blocks of MaxRows,
// then 4, 2 and 1 rows.
template <int MaxRows = kRows, class Fn>
HWY_INLINE void ForEachRowBlock(int64_t rows, Fn fn) {
  int64_t i = 0;
  for (; i + MaxRows <= rows; i += MaxRows) fn(std::integral_constant<int, MaxRows>(), i);
  if constexpr (MaxRows > 4) {
    if constexpr (MaxRows > 16) {
      for (; i + 16 <= rows; i += 16) fn(std::integral_constant<int, 16>(), i);
    }
    if constexpr (MaxRows > 8 && MaxRows % 8 == 0) {
      for (; i + 8 <= rows; i += 8) fn(std::integral_constant<int, 8>(), i);
    }
    for (; i + 4 <= rows; i += 4) fn(std::integral_constant<int, 4>(), i);
  }
  for (; i + 2 <= rows; i += 2) fn(std::integral_constant<int, 2>(), i);
  for (; i < rows; ++i) fn(std::integral_constant<int, 1>(), i);
}

// NV vectors of columns of acc [MR, ...] += p [MR, t] · b [t, ...]; first acc_i
// *= scale[i] if scale is not null, or acc is taken as zero if `fresh`.
template <int MR, int NV, class T>
HWY_INLINE void OuterTile(const float* HWY_RESTRICT p, int64_t p_stride, const T* HWY_RESTRICT b,
                          int64_t b_stride, int64_t t, const float* scale, bool fresh,
                          float* HWY_RESTRICT acc, int64_t acc_stride) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VF c[MR][NV];
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NV; ++j) {
      c[i][j] = fresh ? hn::Zero(d) : hn::LoadU(d, acc + i * acc_stride + j * lanes);
      if (scale != nullptr) c[i][j] = hn::Mul(c[i][j], hn::Set(d, scale[i]));
    }
  }
  for (int64_t x = 0; x < t; ++x) {
    VF bv[NV];
    for (int j = 0; j < NV; ++j) bv[j] = LoadElems(d, b + x * b_stride + j * lanes);
    for (int i = 0; i < MR; ++i) {
      const VF pv = InRegister(hn::Set(d, p[i * p_stride + x]));
      for (int j = 0; j < NV; ++j) c[i][j] = hn::MulAdd(pv, bv[j], c[i][j]);
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NV; ++j) hn::StoreU(c[i][j], d, acc + i * acc_stride + j * lanes);
  }
}

// The same for n columns whatever n: wide tiles, then single vectors, then
// single elements.
template <int MR, class T>
HWY_INLINE void OuterRows(const float* p, int64_t p_stride, const T* b, int64_t b_stride, int64_t t,
                          const float* scale, bool fresh, float* acc, int64_t acc_stride,
                          int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DF()));
  int64_t x = 0;
  for (; x + kColumns * lanes <= n; x += kColumns * lanes) {
    OuterTile<MR, kColumns>(p, p_stride, b + x, b_stride, t, scale, fresh, acc + x, acc_stride);
  }
  for (; x + lanes <= n; x += lanes) {
    OuterTile<MR, 1>(p, p_stride, b + x, b_stride, t, scale, fresh, acc + x, acc_stride);
  }
  for (; x < n; ++x) {
    for (int i = 0; i < MR; ++i) {
      float c = fresh ? 0.0f : acc[i * acc_stride + x] * (scale != nullptr ? scale[i] : 1.0f);
      for (int64_t y = 0; y < t; ++y) c += p[i * p_stride + y] * LoadElem(b + y * b_stride + x);
      acc[i * acc_stride + x] = c;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#endif  // include guard toggled per target
