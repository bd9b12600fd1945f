#include "support/oracle.h"

#include <algorithm>
#include <cmath>

#include "support/stored_matrix.h"

namespace mla {

namespace {

// In four sums, which take turns in the adder.
template <typename A, typename B>
double Dot(const A* a, const B* b, int64_t n) {
  double sum[4] = {};
  int64_t x = 0;
  for (; x + 4 <= n; x += 4) {
    for (int64_t i = 0; i < 4; ++i) {
      sum[i] += static_cast<double>(a[x + i]) * static_cast<double>(b[x + i]);
    }
  }
  for (; x < n; ++x) sum[0] += static_cast<double>(a[x]) * static_cast<double>(b[x]);
  return sum[0] + sum[1] + sum[2] + sum[3];
}

}  // namespace

OracleKv OracleUpProject(const MlaGeometry& g, const std::vector<float>& kv_b,
                         const std::vector<float>& latent) {
  const int64_t length = static_cast<int64_t>(latent.size()) / (g.kv_rank + g.rope);
  OracleKv kv;
  for (int64_t s = 0; s < length; ++s) {
    const float* c = latent.data() + s * (g.kv_rank + g.rope);
    for (int64_t h = 0; h < g.heads; ++h) {
      for (int64_t i = 0; i < g.nope + g.v_dim; ++i) {
        const float* w = kv_b.data() + (h * (g.nope + g.v_dim) + i) * g.kv_rank;
        (i < g.nope ? kv.k : kv.v).push_back(Dot(w, c, g.kv_rank));
      }
      kv.k.insert(kv.k.end(), c + g.kv_rank, c + g.kv_rank + g.rope);
    }
  }
  return kv;
}

void OracleRound(const MlaGeometry& g, Elem type, OracleKv& kv) {
  for (double& x : kv.v) x = Rounded(static_cast<float>(x), type);
  for (size_t i = 0; i < kv.k.size(); ++i) {
    const bool rotated = static_cast<int64_t>(i) % (g.nope + g.rope) >= g.nope;
    kv.k[i] = Rounded(static_cast<float>(kv.k[i]), rotated ? OracleRopeType(type) : type);
  }
}

void OracleRound(const MlaGeometry& g, Elem type, std::vector<float>& latent) {
  const int64_t width = g.kv_rank + g.rope;
  for (size_t row = 0; type == Elem::kInt8 && row < latent.size();
       row += static_cast<size_t>(width)) {
    float* const x = latent.data() + row;
    float largest = 0;
    for (int64_t i = 0; i < g.kv_rank; ++i) largest = std::max(largest, std::abs(x[i]));
    const float step = largest / 127;
    for (int64_t i = 0; i < g.kv_rank; ++i) x[i] = std::nearbyint(x[i] / step) * step;
    for (int64_t i = g.kv_rank; i < width; ++i) x[i] = Rounded(x[i], Elem::kF16);
  }
  if (type == Elem::kInt8) return;
  for (size_t i = 0; i < latent.size(); ++i) {
    const bool rotated = static_cast<int64_t>(i) % (g.kv_rank + g.rope) >= g.kv_rank;
    latent[i] = Rounded(latent[i], rotated ? OracleRopeType(type) : type);
  }
}

OracleResult OracleAttention(const MlaGeometry& g, const OracleKv& kv, const std::vector<float>& q,
                             int64_t first, bool causal) {
  const int64_t qk = g.nope + g.rope;
  const int64_t rows = static_cast<int64_t>(q.size()) / (g.heads * qk);
  const int64_t length = static_cast<int64_t>(kv.k.size()) / (g.heads * qk);
  OracleResult result;
  std::vector<double> p;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t keys = causal ? first + row + 1 : length;
    for (int64_t h = 0; h < g.heads; ++h) {
      p.assign(static_cast<size_t>(keys), 0);
      for (int64_t s = 0; s < keys; ++s) {
        p[static_cast<size_t>(s)] =
            Dot(q.data() + (row * g.heads + h) * qk, kv.k.data() + (s * g.heads + h) * qk, qk);
      }
      const double max = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (double& x : p) sum += x = std::exp(x - max);
      for (int64_t x = 0; x < g.v_dim; ++x) {
        double out = 0;
        for (int64_t s = 0; s < keys; ++s) out += p[s] * kv.v[(s * g.heads + h) * g.v_dim + x];
        result.out.push_back(out / sum);
      }
      result.lse2.push_back((max + std::log(sum)) / std::log(2.0));
    }
  }
  return result;
}

}  // namespace mla
