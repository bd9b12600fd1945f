// Plain loops that accumulate in double: the oracle of the tests and `--kernels reference`.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/float16.h"
#include "kernels/attend.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace mla {
namespace reference {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

double At(const void* data, Elem type, int64_t i) {
  switch (type) {
    case Elem::kF32:
      return static_cast<const float*>(data)[i];
    case Elem::kF16:
      return Fp16ToFloat(static_cast<const uint16_t*>(data)[i]);
    case Elem::kBf16:
      return Bf16ToFloat(static_cast<const uint16_t*>(data)[i]);
    case Elem::kInt8:
      break;  // not an element by itself
  }
  return 0;
}

void Matmul(const MatmulArgs& g, bool transposed) {
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      const int64_t row = g.a_rows != nullptr ? g.a_rows[i] : i;
      double sum = g.accumulate ? g.c[i * g.c_stride + j] : 0;
      for (int64_t x = 0; x < g.k; ++x) {
        const int64_t at = transposed ? j * g.b_stride + x : x * g.b_stride + j;
        sum += static_cast<double>(g.a[row * g.a_stride + x]) * At(g.b, g.b_type, at);
      }
      if (g.bias != nullptr) sum += g.bias[j];
      g.c[i * g.c_stride + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace

void MatmulNt(const MatmulArgs& args) noexcept { Matmul(args, true); }
void MatmulNn(const MatmulArgs& args) noexcept { Matmul(args, false); }

void AttendTile(const AttendTileArgs& g) noexcept {
  double p[kAttendTileRows];
  for (int64_t i = 0; i < g.m; ++i) {
    const int64_t visible = g.visible != nullptr ? g.visible[i] : g.t;
    double max = g.max[i];
    for (int64_t j = 0; j < visible; ++j) {
      p[j] = 0;
      for (int64_t x = 0; x < g.dk; ++x) {
        p[j] += static_cast<double>(g.q[i * g.q_stride + x]) * At(g.k, g.type, j * g.k_stride + x);
      }
      for (int64_t x = 0; x < g.dr; ++x) {
        p[j] += static_cast<double>(g.q[i * g.q_stride + g.dk + x]) *
                At(g.k_rope, g.rope_type, j * g.k_rope_stride + x);
      }
      max = std::max(max, p[j]);
    }
    if (max == kNone) {
      // Only -inf and NaN: the former weigh nothing, the latter must reach the output.
      for (int64_t j = 0; j < visible; ++j) {
        if (std::isnan(p[j])) g.sum[i] = static_cast<float>(p[j]);
      }
      continue;
    }
    const double shrink = std::exp(g.max[i] - max);
    double sum = g.sum[i] * shrink;
    for (int64_t j = 0; j < visible; ++j) sum += p[j] = std::exp(p[j] - max);
    for (int64_t x = 0; x < g.dv; ++x) {
      double acc = g.acc[i * g.acc_stride + x] * shrink;
      for (int64_t j = 0; j < visible; ++j) acc += p[j] * At(g.v, g.type, j * g.v_stride + x);
      g.acc[i * g.acc_stride + x] = static_cast<float>(acc);
    }
    g.sum[i] = static_cast<float>(sum);
    g.max[i] = static_cast<float>(max);
  }
}

void AttendFinish(const AttendFinishArgs& g) noexcept {
  for (int64_t i = 0; i < g.m; ++i) {
    const double sum = g.sum[i];
    for (int64_t x = 0; x < g.dv; ++x) {
      const double acc = g.acc[i * g.acc_stride + x];
      g.out[i * g.out_stride + x] = sum == 0 ? 0.0f : static_cast<float>(acc / sum);
    }
    if (g.lse == nullptr) continue;
    g.lse[i] = static_cast<float>(sum == 0 ? kNone : std::log2(sum) + g.max[i] / std::log(2.0));
  }
}

void MergeStates(const MergeArgs& g) noexcept {
  double max = kNone;
  for (int32_t i = g.indptr[g.output]; i < g.indptr[g.output + 1]; ++i) {
    const double lse = g.lse_in[i * g.heads + g.head];
    if (lse > max) max = lse;
  }
  double total = 0;
  for (int64_t x = 0; x < g.dim; ++x) {
    double sum = 0;
    total = 0;
    for (int32_t i = g.indptr[g.output]; i < g.indptr[g.output + 1]; ++i) {
      const double lse = g.lse_in[i * g.heads + g.head];
      if (!(lse > kNone)) continue;
      const double w = std::exp2(lse - max);
      total += w;
      sum += w * g.v_in[(static_cast<int64_t>(i) * g.heads + g.head) * g.dim + x];
    }
    g.v_out[(g.output * g.heads + g.head) * g.dim + x] =
        static_cast<float>(total == 0 ? 0 : sum / total);
  }
  if (g.lse_out == nullptr) return;
  g.lse_out[g.output * g.heads + g.head] =
      static_cast<float>(max == kNone ? kNone : max + std::log2(total));
}

void RmsNorm(const float* x, const float* w, float eps, float* y, int64_t n) noexcept {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(w[i] * (x[i] * scale));
}

void RotatePairs(float* x, const float* cos, const float* sin, int64_t n,
                 bool half_split) noexcept {
  for (int64_t i = 0; i < n / 2; ++i) {
    float* a = half_split ? x + i : x + 2 * i;
    float* b = half_split ? x + i + n / 2 : x + 2 * i + 1;
    const double first = *a;
    const double second = *b;
    *a = static_cast<float>(first * cos[i] - second * sin[i]);
    *b = static_cast<float>(second * cos[i] + first * sin[i]);
  }
}

void SwiGlu(const float* gate, const float* up, float* y, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    const double g = gate[i];
    y[i] = static_cast<float>(g / (1 + std::exp(-g)) * up[i]);
  }
}

void Axpy(float scale, const float* x, float* y, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<float>(y[i] + static_cast<double>(scale) * x[i]);
  }
}

void Softmax(float* x, int64_t n) noexcept {
  const double max = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(std::exp(x[i] - max) / sum);
}

bool AllFinite(const float* x, int64_t n) noexcept {
  return std::all_of(x, x + n, [](float v) { return std::isfinite(v); });
}

void ToFloat(const void* x, Elem type, float* y, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(At(x, type, i));
}

void FromFloat(const float* x, Elem type, void* y, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    switch (type) {
      case Elem::kF32:
        static_cast<float*>(y)[i] = x[i];
        break;
      case Elem::kF16:
        static_cast<uint16_t*>(y)[i] = FloatToFp16(x[i]);
        break;
      case Elem::kBf16:
        static_cast<uint16_t*>(y)[i] = FloatToBf16(x[i]);
        break;
      case Elem::kInt8:
        break;
    }
  }
}

}  // namespace reference
}  // namespace mla
