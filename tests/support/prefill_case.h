// Random latent rows, weights and queries of one head, a run of the prefill kernel over them, and
// the answer in double. Called by: prefill_test, fuzz_latent. Thread-safety: immutable after
// construction.
#ifndef MLA_TESTS_SUPPORT_PREFILL_CASE_H_
#define MLA_TESTS_SUPPORT_PREFILL_CASE_H_

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "base/float16.h"
#include "kernels/x86/prefill_bf16.h"
#include "support/latent_case.h"

namespace mla {

struct PrefillShape {
  int64_t rows = 1, nope = 32, v_dim = 32;
  int64_t rank = 64, rope = 16;
  int64_t keys = 1;   // the last query row sees all
  int64_t first = 0;  // position of the first
  Elem type = Elem::kBf16;
  double scale = 1;
};
inline std::ostream& operator<<(std::ostream& out, const PrefillShape& s) {
  return out << "rows " << s.rows << " n " << s.nope << " v " << s.v_dim << " rank " << s.rank
             << " r " << s.rope << " keys " << s.keys << " first " << s.first << " type "
             << static_cast<int>(s.type);
}

class PrefillCase {
 public:
  struct Exact {
    std::vector<double> out;    // [rows, v_dim]
    std::vector<double> bound;  // one per row
  };

  PrefillCase(const PrefillShape& shape, uint64_t seed)
      : s(shape),
        latent({.rank = s.rank,
                .rope = s.rope,
                .keys = s.keys,
                .first = s.first,
                .type = s.type,
                .rope_type = Elem::kF16},
               seed) {
    Random random(seed + 1000);
    const double width = static_cast<double>(s.nope + s.rope);
    q = random.Normals(s.rows * (s.nope + s.rope), s.scale / std::sqrt(width));
    w_stride = s.rank + 2;
    for (std::vector<uint16_t>* w : {&w_uk, &w_uv}) {
      const int64_t rows = w == &w_uk ? s.nope : s.v_dim;
      const double size = 1 / std::sqrt(static_cast<double>(s.rank));
      for (const float x : random.Normals(rows * w_stride, size)) w->push_back(FloatToBf16(x));
      // What is not part of the weights must not be read as such.
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t x = s.rank; x < w_stride; ++x) {
          (*w)[static_cast<size_t>(row * w_stride + x)] = 0x7fc0;
        }
      }
    }
  }

  int64_t Seen(int64_t row) const { return std::max<int64_t>(0, s.keys - (s.rows - 1 - row)); }

  /// Rows [row, row + rows).
  std::vector<float> Run(const BlockProducts& products, int64_t row, int64_t rows) {
    PrefillTask task;
    const int64_t width = s.nope + s.rope;
    task.q = q.data() + row * width;
    task.q_row_stride = width;
    task.rows = rows;
    task.nope = s.nope;
    task.v_dim = s.v_dim;
    task.format = latent.format;
    task.w_uk = w_uk.data();
    task.w_uv = w_uv.data();
    task.w_stride = w_stride;
    const int64_t floats = PrefillScratchFloats(task.format, rows, s.nope, s.v_dim);
    constexpr int64_t kGuard = 16;
    std::vector<float> scratch(static_cast<size_t>(floats + 2 * kGuard + 16), kNaN);
    float* aligned = scratch.data();
    while (reinterpret_cast<uintptr_t>(aligned) % 64 != 0) ++aligned;
    std::fill(aligned, aligned + kGuard, 12345.0f);
    std::fill(aligned + kGuard + floats, aligned + 2 * kGuard + floats, 12345.0f);
    task.scratch = aligned + kGuard;
    task.out_row_stride = s.v_dim + 3;
    std::vector<float> strided(static_cast<size_t>(rows * task.out_row_stride), 777.0f);
    task.out = strided.data();
    PrefillBf16Begin(task, products);
    const int64_t end = Seen(row + rows - 1);
    for (int64_t key = 0; key < end;) {
      const int64_t position = s.first + key;
      const int64_t next =
          std::min(end, (position / kLatentTileRows + 1) * kLatentTileRows - s.first);
      LatentTileRows tile;
      tile.data = latent.Row(key);
      tile.count = next - key;
      tile.visible = s.keys - (s.rows - 1 - row) - key;
      PrefillBf16Tile(task, tile, products);
      key = next;
    }
    PrefillBf16Finish(task, products);
    intact = true;
    for (int64_t i = 0; i < kGuard; ++i) {
      intact = intact && aligned[i] == 12345.0f && aligned[kGuard + floats + i] == 12345.0f;
    }
    std::vector<float> out;
    for (int64_t i = 0; i < rows; ++i) {
      const float* from = strided.data() + i * task.out_row_stride;
      out.insert(out.end(), from, from + s.v_dim);
      for (int64_t x = s.v_dim; x < task.out_row_stride; ++x) intact = intact && from[x] == 777.0f;
    }
    return out;
  }
  std::vector<float> Run(const BlockProducts& products) { return Run(products, 0, s.rows); }

  /// The answer, keys and values rounded to bf16 as the kernel's are.
  Exact Want() {
    Exact want;
    std::vector<double> k(static_cast<size_t>(s.keys * s.nope));
    std::vector<double> v(static_cast<size_t>(s.keys * s.v_dim));
    const auto up = [&](const std::vector<uint16_t>& w, int64_t width, std::vector<double>& to) {
      for (int64_t key = 0; key < s.keys; ++key) {
        for (int64_t x = 0; x < width; ++x) {
          double sum = 0;
          for (int64_t i = 0; i < s.rank; ++i) {
            sum += double{latent.Value(key, i)} *
                   double{Bf16ToFloat(w[static_cast<size_t>(x * w_stride + i)])};
          }
          to[static_cast<size_t>(key * width + x)] =
              double{Bf16ToFloat(FloatToBf16(static_cast<float>(sum)))};
        }
      }
    };
    up(w_uk, s.nope, k);
    up(w_uv, s.v_dim, v);
    double largest = 0;
    for (const double x : v) largest = std::max(largest, std::abs(x));
    const int64_t width = s.nope + s.rope;
    for (int64_t row = 0; row < s.rows; ++row) {
      std::vector<double> p(static_cast<size_t>(Seen(row)));
      double max = -kInfinity, norm = 0, term = 0;
      for (size_t key = 0; key < p.size(); ++key) {
        double sum = 0, magnitude = 0;
        for (int64_t x = 0; x < width; ++x) {
          const auto at = static_cast<int64_t>(key);
          const double element = x < s.nope ? k[static_cast<size_t>(at * s.nope + x)]
                                            : double{latent.Value(at, s.rank + x - s.nope)};
          const double product = double{q[static_cast<size_t>(row * width + x)]} * element;
          sum += product;
          magnitude += std::abs(product);
          term = std::max(term, std::abs(product));
        }
        p[key] = sum;
        max = std::max(max, sum);
        norm = std::max(norm, magnitude);
      }
      double total = 0;
      for (double& x : p) total += x = std::exp(x - max);
      for (int64_t x = 0; x < s.v_dim; ++x) {
        double sum = 0;
        for (size_t key = 0; key < p.size(); ++key) {
          sum += p[key] * v[key * static_cast<size_t>(s.v_dim) + static_cast<size_t>(x)];
        }
        want.out.push_back(p.empty() ? 0 : sum / total);
      }
      want.bound.push_back(Bound(norm, term) * largest);
    }
    return want;
  }

  // Of |out|, by the largest |value|. The answer has keys and values rounded as the kernel's are.
  // - A key or value may be rounded to the other neighbour where fp32 sums are off: 2^-8 of one
  //   term, and of a value.
  // - A query is known to 2^-17; sums of fp32 products err by as many roundings as they are long,
  //   as often up as down.
  // - A weight is off by twice that, by 2^-18 of itself for the polynomial, and is rounded to 8
  //   bits: the mean is off by 2·2^-9 of the largest value (latent_bf16_test.cc).
  double Bound(double norm, double term) const {
    const double width = static_cast<double>(s.nope + s.rope);
    const double score = std::ldexp(norm, -17) + std::ldexp(term, -8) +
                         kRoundF32 * (8 + 4 * std::sqrt(width) * norm);
    return std::ldexp(1.01, -8) + std::ldexp(1.0, -17) + std::ldexp(1.0, -8) / 16 + 2 * score +
           kRoundF32 * 4 * std::sqrt(static_cast<double>(s.keys));
  }

  PrefillShape s;
  LatentCase latent;
  std::vector<float> q;              // [rows, nope + rope]
  std::vector<uint16_t> w_uk, w_uv;  // [nope, w_stride], [v_dim, w_stride]
  int64_t w_stride = 0;
  bool intact = true;
};

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_PREFILL_CASE_H_
