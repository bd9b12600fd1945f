// The prefill kernel against double: products with VDPBF16PS where the processor has it, with AMX
// on a model of the tiles, and on real ones where there are any.
#include "kernels/prefill.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "kernels/x86/dot_units.h"
#include "kernels/x86/prefill_bf16.h"
#include "support/compare.h"
#include "support/latent_case.h"
#include "support/slow_isa.h"
#include "support/tile_model.h"

namespace mla {
namespace {

constexpr BlockProducts kModelProducts = AmxProduct<ModelTiles>::Products();

struct Shape {
  int64_t rows = 1, nope = 32, v_dim = 32;
  int64_t rank = 64, rope = 16;
  int64_t keys = 1;   // the last query row sees all
  int64_t first = 0;  // position of the first
  Elem type = Elem::kBf16;
  double scale = 1;
};
std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "rows " << s.rows << " n " << s.nope << " v " << s.v_dim << " rank " << s.rank
             << " r " << s.rope << " keys " << s.keys << " first " << s.first << " type "
             << static_cast<int>(s.type);
}

double ToBf16(double x) { return Bf16ToFloat(FloatToBf16(static_cast<float>(x))); }

struct Want {
  std::vector<double> out;
  std::vector<double> bound;  // one per row
};

class PrefillCase {
 public:
  PrefillCase(const Shape& shape, uint64_t seed)
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

  Want Exact() {
    Want want;
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
          to[static_cast<size_t>(key * width + x)] = ToBf16(sum);
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

  Shape s;
  LatentCase latent;
  std::vector<float> q;              // [rows, nope + rope]
  std::vector<uint16_t> w_uk, w_uv;  // [nope, w_stride], [v_dim, w_stride]
  int64_t w_stride = 0;
  bool intact = true;
};

class Prefill : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    // The parts around the products need AVX-512, which goes with the dot unit.
    const std::string why_not = TryDotUnit(name == "amx" ? DotUnit::kAmxBf16 : DotUnit::kBf16Dot);
    if (!why_not.empty()) GTEST_SKIP() << GetParam() << ": " << why_not;
    products_ = name == "model" ? &kModelProducts
                : name == "amx" ? AmxBlockProducts()
                                : Bf16DotBlockProducts();
    TileModel::Here() = TileModel();
  }
  void TearDown() override {
    EXPECT_EQ(TileModel::Here().fault, "");
    EXPECT_EQ(TileModel::Here().config.palette, 0) << "tiles were not released";
  }

  void ExpectClose(const Shape& shape, uint64_t seed) {
    PrefillCase c(shape, seed);
    SCOPED_TRACE(testing::Message() << GetParam() << " " << shape);
    const std::vector<float> got = c.Run(*products_);
    ASSERT_TRUE(c.intact) << "wrote beyond the scratch or the output";
    const Want want = c.Exact();
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want.out[i], want.bound[i / static_cast<size_t>(shape.v_dim)])
          << "element " << i;
    }
  }

  const BlockProducts* products_ = nullptr;
};

TEST_P(Prefill, EveryNumberOfRows) {
  for (int64_t rows = 1; rows <= 70; ++rows) {
    ExpectClose({.rows = rows, .keys = rows + 9, .first = 250}, static_cast<uint64_t>(rows));
    // The first rows see nothing.
    ExpectClose({.rows = rows, .keys = (rows + 1) / 2}, static_cast<uint64_t>(rows));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Prefill, EveryNumberOfKeysAroundStepsAndTiles) {
  std::vector<int64_t> counts;
  for (int64_t keys = 1; keys <= 67; ++keys) counts.push_back(keys);
  for (const int64_t keys : {127, 128, 129, 255, 256, 257, 271, 272, 273, 511, 512, 513, 530}) {
    counts.push_back(keys);
  }
  for (const int64_t keys : counts) {
    ExpectClose({.rows = 3, .keys = keys}, 1);
    ExpectClose({.rows = 33, .keys = keys, .first = 130}, 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Prefill, EveryWidth) {
  for (int64_t width = 1; width <= 66; ++width) {
    ExpectClose({.rows = 5, .nope = width, .v_dim = 16, .keys = 40}, 3);
    ExpectClose({.rows = 5, .v_dim = width, .keys = 40}, 4);
    ExpectClose({.rows = 5, .rank = width, .keys = 40}, 5);
    ExpectClose({.rows = 5, .rope = 2 * width, .keys = 40}, 6);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Prefill, Int8Rows) {
  for (const int64_t rank : {1, 31, 32, 41, 64, 130}) {
    for (const int64_t keys : {1, 32, 40, 257}) {
      ExpectClose({.rows = 18, .rank = rank, .keys = keys, .type = Elem::kInt8}, 7);
    }
  }
}

TEST_P(Prefill, RealShapes) {
  const bool slow = SlowIsa() || std::string(GetParam()) == "model";
  const int64_t keys = slow ? 70 : 600;
  for (const Elem type : {Elem::kBf16, Elem::kInt8}) {
    for (const auto& [nope, rope, v_dim, rank] :
         {std::tuple{128, 64, 128, 512}, {192, 64, 256, 512}, {64, 32, 64, 256}}) {
      ExpectClose({.rows = 50,
                   .nope = nope,
                   .v_dim = v_dim,
                   .rank = rank,
                   .rope = rope,
                   .keys = keys,
                   .first = 10,
                   .type = type},
                  8);
    }
  }
}

TEST_P(Prefill, ScoresOfAnySize) {
  for (const double scale : {0.01, 10.0, 100.0, 1e4}) {
    ExpectClose({.rows = 20, .keys = 300, .scale = scale}, 9);
  }
}

TEST_P(Prefill, ARowDoesNotDependOnTheOthers) {
  PrefillCase c({.rows = 70, .keys = 140, .first = 200}, 10);
  c.q[48 * 33 + 3] = kNaN;
  const std::vector<float> whole = c.Run(*products_);
  for (const int64_t row : {0, 5, 16, 32, 34, 69}) {
    for (const int64_t rows : {1, 17}) {
      if (row + rows > 70) continue;
      const std::vector<float> part = c.Run(*products_, row, rows);
      EXPECT_TRUE(SameBits(part, {whole.begin() + row * 32, whole.begin() + (row + rows) * 32}))
          << "row " << row << " of " << rows;
    }
  }
  for (int64_t row = 0; row < 70; ++row) {
    const auto at = whole.begin() + row * 32;
    EXPECT_EQ(Finite({at, at + 32}), row != 33) << row;
  }
}

TEST_P(Prefill, ABrokenKeyReachesThoseWhoSeeItAndNobodyElse) {
  const Shape s = {.rows = 40, .keys = 90, .first = 230};
  PrefillCase clean(s, 11);
  const std::vector<float> want = clean.Run(*products_);
  for (const int64_t bad : {86, 70, 20}) {
    for (const int64_t column : {0, 63, 64, 79}) {
      for (const float value : {kNaN, kInfinity}) {
        // An infinite rotated element may give the score -inf, which is a weight of 0.
        const bool may_vanish = column >= 64 && value == kInfinity;
        PrefillCase c(s, 11);
        c.latent.Value(bad, column) = value;
        c.latent.PutRow(bad);
        const std::vector<float> got = c.Run(*products_);
        SCOPED_TRACE(testing::Message() << "key " << bad << " column " << column << " " << value);
        for (int64_t row = 0; row < s.rows; ++row) {
          const auto at = got.begin() + row * 32;
          const std::vector<float> mine(at, at + 32);
          if (c.Seen(row) <= bad) {
            EXPECT_TRUE(SameBits(mine, {want.begin() + row * 32, want.begin() + row * 32 + 32}))
                << "row " << row;
          } else if (!may_vanish) {
            for (const float x : mine) EXPECT_FALSE(std::isfinite(x)) << "row " << row;
          }
        }
      }
    }
  }
}

TEST_P(Prefill, ScoresOfMinusInfinityWeighNothing) {
  PrefillCase c({.rows = 20, .keys = 60}, 12);
  for (int64_t row = 0; row < 20; ++row) c.q[static_cast<size_t>(row * 48 + 32)] = 0.37f;
  for (int64_t key = 0; key < 60; ++key) {
    if (key == 7) continue;
    c.latent.Value(key, 64) = -kInfinity;
    c.latent.PutRow(key);
  }
  const Want want = c.Exact();
  const std::vector<float> got = c.Run(*products_);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want.out[i], 1e-2) << i;
}

INSTANTIATE_TEST_SUITE_P(Families, Prefill, testing::Values("model", "bf16dot", "amx"),
                         [](const auto& param) { return std::string(param.param); });

TEST(PrefillTakes, OnlyWhatItServes) {
  LatentFormat format{.type = Elem::kBf16, .rope_type = Elem::kF16, .rank = 512, .rope = 64};
  EXPECT_FALSE(PrefillTakes(format, 512, 128, 128)) << "fp32 multiply-adds";
  format.unit = DotUnit::kAmxBf16;
  EXPECT_EQ(PrefillTakes(format, 512, 128, 128), AmxBlockProducts() != nullptr);
  format.rope_type = Elem::kBf16;
  EXPECT_FALSE(PrefillTakes(format, 512, 128, 128));
  format.type = format.rope_type = Elem::kF16;
  EXPECT_FALSE(PrefillTakes(format, 512, 128, 128));
  format.type = Elem::kBf16;
  format.rank = 1 << 20;
  EXPECT_FALSE(PrefillTakes(format, 512, 128, 128)) << "too much scratch";
}

}  // namespace
}  // namespace mla
