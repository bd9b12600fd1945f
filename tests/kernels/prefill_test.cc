// The prefill kernel against double: products with VDPBF16PS where the processor has it, with AMX
// on a model of the tiles, and on real ones where there are any.
#include "kernels/prefill.h"

#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "kernels/x86/dot_units.h"
#include "support/prefill_case.h"
#include "support/slow_isa.h"
#include "support/tile_model.h"

namespace mla {
namespace {

constexpr BlockProducts kModelProducts = AmxProduct<ModelTiles>::Products();

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

  void ExpectClose(const PrefillShape& shape, uint64_t seed) {
    PrefillCase c(shape, seed);
    SCOPED_TRACE(testing::Message() << GetParam() << " " << shape);
    const std::vector<float> got = c.Run(*products_);
    ASSERT_TRUE(c.intact) << "wrote beyond the scratch or the output";
    const PrefillCase::Exact want = c.Want();
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
  const PrefillShape s = {.rows = 40, .keys = 90, .first = 230};
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
  const PrefillCase::Exact want = c.Want();
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
