// Register tiles shared by the matrix products and attention. Re-included once per target.
// Called by: kernels/*.cc only. Thread-safety: pure functions.

// clang-format off
#if defined(MLA_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLA_KERNELS_TILE_INL_H_
#undef MLA_KERNELS_TILE_INL_H_
#else
#define MLA_KERNELS_TILE_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include "base/float16.h"
#include "kernels/elem.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

// Wide tiles need 24 vector registers; with 16 they would spill.
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || \
    HWY_TARGET == HWY_EMU128
inline constexpr int kWide = 2;
#else
inline constexpr int kWide = 4;
#endif

// One vector of stored elements as fp32.
HWY_INLINE VF LoadElems(DF d, const float* p) { return hn::LoadU(d, p); }
HWY_INLINE VF LoadElems(DF d, const hwy::bfloat16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, DF>(), p));
}
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE VF LoadElems(DF d, const hwy::float16_t* p) { return hn::Set(d, Fp16ToFloat(p->bits)); }
#elif HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128
// These have no conversion, and Highway's own emulation of it turns infinity and NaN into numbers.
HWY_INLINE VF LoadElems(DF d, const hwy::float16_t* p) {
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::PromoteTo(
      du, hn::LoadU(hn::Rebind<uint16_t, DF>(), reinterpret_cast<const uint16_t*>(p)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffu));
  // Exponent and mantissa at fp32's places, 2^112 too small; the product is exact, also for
  // subnormals.
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
HWY_INLINE float LoadElem(const hwy::float16_t* p) { return Fp16ToFloat(p->bits); }

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
  }
}

// sink(i, j, a_i · b_j) for MR rows of a and NR rows of b, each of length k. Every element is
// summed in the same order whatever MR and NR: results do not depend on the tiling.
template <int MR, int NR, class T, class Sink>
HWY_INLINE void DotTile(const float* const (&a)[MR], const T* HWY_RESTRICT b, int64_t b_stride,
                        int64_t k, Sink sink) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VF acc[MR][NR];
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NR; ++j) acc[i][j] = hn::Zero(d);
  }
  int64_t x = 0;
  for (; x + lanes <= k; x += lanes) {
    VF bv[NR];
    for (int j = 0; j < NR; ++j) bv[j] = LoadElems(d, b + j * b_stride + x);
    for (int i = 0; i < MR; ++i) {
      const VF av = hn::LoadU(d, a[i] + x);
      for (int j = 0; j < NR; ++j) acc[i][j] = hn::MulAdd(av, bv[j], acc[i][j]);
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NR; ++j) {
      float sum = hn::GetLane(hn::SumOfLanes(d, acc[i][j]));
      for (int64_t y = x; y < k; ++y) sum += a[i][y] * LoadElem(b + j * b_stride + y);
      sink(i, j, sum);
    }
  }
}

// NV vectors of columns of acc [MR, ...] += p [MR, t] · b [t, ...]; first acc_i *= scale[i] if
// scale is not null, or acc is taken as zero if `fresh`.
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
      const VF pv = hn::Set(d, p[i * p_stride + x]);
      for (int j = 0; j < NV; ++j) c[i][j] = hn::MulAdd(pv, bv[j], c[i][j]);
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NV; ++j) hn::StoreU(c[i][j], d, acc + i * acc_stride + j * lanes);
  }
}

// The same for n columns whatever n: wide tiles, then single vectors, then single elements.
template <int MR, class T>
HWY_INLINE void OuterRows(const float* p, int64_t p_stride, const T* b, int64_t b_stride, int64_t t,
                          const float* scale, bool fresh, float* acc, int64_t acc_stride,
                          int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DF()));
  int64_t x = 0;
  for (; x + kWide * lanes <= n; x += kWide * lanes) {
    OuterTile<MR, kWide>(p, p_stride, b + x, b_stride, t, scale, fresh, acc + x, acc_stride);
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
