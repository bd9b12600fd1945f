#include "kernels/elementwise.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

void Norm(const float* x, const float* w, float eps, float* y, int64_t n) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VF squares = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const VF v = hn::LoadU(d, x + i);
    squares = hn::MulAdd(v, v, squares);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < n; ++i) sum += x[i] * x[i];
  const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
  const VF scale = hn::Set(d, inverse);
  for (i = 0; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, w + i), hn::Mul(hn::LoadU(d, x + i), scale)), d, y + i);
  }
  for (; i < n; ++i) y[i] = w[i] * (x[i] * inverse);
}

// silu(g)·u as g / (1 + exp(-g)) · u.
VF SwiGluVector(DF d, VF gate, VF up) {
  const VF one = hn::Set(d, 1.0f);
  // Highway's Exp overflows to infinity as it should, but far beyond it wraps around; and it gives
  // 0 for NaN, where the quotient still carries the gate's.
  const VF exponent = hn::Min(hn::Neg(gate), hn::Set(d, 100.0f));
  return hn::Mul(hn::Div(gate, hn::Add(one, hn::Exp(d, exponent))), up);
}

void SwiGluRow(const float* gate, const float* up, float* y, int64_t n) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(SwiGluVector(d, hn::LoadU(d, gate + i), hn::LoadU(d, up + i)), d, y + i);
  }
  if (i == n) return;
  float g[HWY_MAX_BYTES / sizeof(float)] = {};
  float u[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy(gate + i, gate + n, g);
  std::copy(up + i, up + n, u);
  hn::StoreU(SwiGluVector(d, hn::LoadU(d, g), hn::LoadU(d, u)), d, g);
  std::copy(g, g + (n - i), y + i);
}

void AxpyRow(float scale, const float* x, float* y, int64_t n) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const VF s = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::MulAdd(s, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  }
  for (; i < n; ++i) y[i] += scale * x[i];
}

bool Finite(const float* x, int64_t n) {
  // x - x is 0 for finite x and NaN otherwise; NaN survives the sum.
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VF sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const VF v = hn::LoadU(d, x + i);
    sum = hn::Add(sum, hn::Sub(v, v));
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += x[i] - x[i];
  return total == 0.0f;
}

void Widen(const void* x, Elem type, float* y, int64_t n) {
  WithElem(type, x, [&](const auto* p) {
    const DF d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(LoadElems(d, p + i), d, y + i);
    for (; i < n; ++i) y[i] = LoadElem(p + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {

HWY_EXPORT(Norm);
HWY_EXPORT(SwiGluRow);
HWY_EXPORT(AxpyRow);
HWY_EXPORT(Finite);
HWY_EXPORT(Widen);

void RmsNorm(const float* x, const float* w, float eps, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(Norm)(x, w, eps, y, n);
}

void SwiGlu(const float* gate, const float* up, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(SwiGluRow)(gate, up, y, n);
}

void Axpy(float scale, const float* x, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(AxpyRow)(scale, x, y, n);
}

bool AllFinite(const float* x, int64_t n) noexcept { return HWY_DYNAMIC_DISPATCH(Finite)(x, n); }

void ToFloat(const void* x, Elem type, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(Widen)(x, type, y, n);
}

// The following touch a few dozen to a few thousand elements per token: the compiler's own
// vectorisation is enough.

void RotatePairs(float* x, const float* cos, const float* sin, int64_t n,
                 bool half_split) noexcept {
  const int64_t half = n / 2;
  const int64_t step = half_split ? 1 : 2;
  const int64_t other = half_split ? half : 1;
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i * step];
    const float b = x[i * step + other];
    x[i * step] = a * cos[i] - b * sin[i];
    x[i * step + other] = b * cos[i] + a * sin[i];
  }
}

void Softmax(float* x, int64_t n) noexcept {
  const float max = *std::max_element(x, x + n);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    x[i] = std::exp(x[i] - max);
    sum += x[i];
  }
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

void FromFloat(const float* x, Elem type, void* y, int64_t n) noexcept {
  switch (type) {
    case Elem::kF32:
      std::copy(x, x + n, static_cast<float*>(y));
      return;
    case Elem::kF16:
      for (int64_t i = 0; i < n; ++i) static_cast<uint16_t*>(y)[i] = FloatToFp16(x[i]);
      return;
    case Elem::kBf16:
      for (int64_t i = 0; i < n; ++i) static_cast<uint16_t*>(y)[i] = FloatToBf16(x[i]);
      return;
    case Elem::kInt8:
      return;  // not an element by itself
  }
}

}  // namespace mla
#endif  // HWY_ONCE
