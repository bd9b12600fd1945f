// The bf16 families against double: VDPBF16PS where the processor has it, AMX on a model of the
// tiles, and on real ones where there are any.
#include "kernels/x86/latent_bf16.h"

#include <gtest/gtest.h>

#include "kernels/latent_unit.h"
#include "kernels/x86/latent_amx.h"
#include "mla/error.h"
#include "support/latent_case.h"
#include "support/slow_isa.h"
#include "support/tile_model.h"

namespace mla {
namespace {

constexpr Bf16Products kModelProducts = LatentAmx<ModelTiles>::Products();

const Bf16Products* products = nullptr;

// The fast kernels with the latent ones replaced.
KernelTable TableOf(const char* name) {
  KernelTable table = FastKernels();
  table.name = name;
  table.latent_begin = [](const LatentTask& t) noexcept { LatentBf16Begin(t, *products); };
  table.latent_tile = [](const LatentTask& t, const LatentTileRows& r) noexcept {
    LatentBf16Tile(t, r, *products);
  };
  table.latent_finish = [](const LatentTask& t) noexcept { LatentBf16Finish(t, *products); };
  return table;
}

class LatentBf16 : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    // The parts around the products need AVX-512, which goes with the dot unit.
    const std::string why_not = TryDotUnit(name == "amx" ? DotUnit::kAmxBf16 : DotUnit::kBf16Dot);
    if (!why_not.empty()) GTEST_SKIP() << GetParam() << ": " << why_not;
    products = name == "model" ? &kModelProducts
               : name == "amx" ? AmxBf16Products()
                               : Bf16DotProducts();
    TileModel::Here() = TileModel();
  }
  void TearDown() override {
    EXPECT_EQ(TileModel::Here().fault, "");
    EXPECT_EQ(TileModel::Here().config.palette, 0) << "tiles were not released";
  }

  static LatentShape Bf16(LatentShape s) {
    s.type = Elem::kBf16;
    s.rope_type = Elem::kF16;
    s.unit = DotUnit::kAmxBf16;  // for its scratch, which the other tables share
    return s;
  }

  const KernelTable table_ = TableOf(GetParam());
};

// What the family adds to fp32's errors.
// - A query is known to 2^-17 of each element (two bf16 parts, 9 bits each with the sign of the
//   second), a score to that of the sum of its terms' magnitudes, in the worst case; so is the
//   weight, relatively.
// - Sums of products round each step, like fp32 does; pairs are added first, which is no worse than
//   the chain that LatentFp32Bound counts.
// - A weight is rounded to 8 bits: by at most 2^-9 of itself. The weights' sum is that of the
//   rounded ones, so the output is a mean with weights off by d_i <= 2^-9, that is
//   sum p_i (1 + d_i) v_i / sum p_i (1 + d_i), off by at most sum p_i |d_i| |v_i - out| / sum p_i
//   <= 2·2^-9·max|v| / (1 - 2^-9).
// - Flushed denormals are below 2^-126 each and vanish in this.
// lse: the sum is off by at most 2^-9 relatively, log2 of it by 2^-9·log2(e).
struct Bounds {
  double out, lse;
};
Bounds BoundsOf(const LatentShape& s, const LatentCase::Exact& want) {
  const double fp32 = LatentFp32Bound(s, want) + std::ldexp(want.score_norm, -17);
  return {fp32 + std::ldexp(1.01, -8), fp32 + std::ldexp(1.5, -9)};
}

void ExpectClose(LatentCase& c, const KernelTable& kernels) {
  const LatentResult got = c.Run(kernels);
  ASSERT_TRUE(c.intact) << "wrote beyond the scratch";
  const LatentCase::Exact want = c.Want();
  const Bounds bound = BoundsOf(c.s, want);
  for (size_t i = 0; i < want.out.size(); ++i) {
    ASSERT_NEAR(got.out[i], want.out[i], bound.out * std::max(want.largest_value, 1e-30))
        << "element " << i;
  }
  for (size_t i = 0; i < want.lse.size(); ++i) {
    if (std::isinf(want.lse[i])) {
      ASSERT_EQ(got.lse[i], -kInfinity) << "pair " << i;
    } else {
      ASSERT_NEAR(got.lse[i], want.lse[i], bound.lse * (2 + std::abs(want.lse[i]))) << "pair " << i;
    }
  }
}

#define EXPECT_CLOSE(...)                                          \
  do {                                                             \
    LatentCase c_(Bf16(__VA_ARGS__), seed++);                      \
    SCOPED_TRACE(testing::Message() << GetParam() << " " << c_.s); \
    ExpectClose(c_, table_);                                       \
    if (HasFatalFailure()) return;                                 \
  } while (false)

TEST_P(LatentBf16, EveryNumberOfHeads) {
  uint64_t seed = 1;
  for (int64_t heads = 1; heads <= 41; ++heads) {
    EXPECT_CLOSE({.heads = heads, .rank = 41, .rope = 6, .keys = 70, .first = 60});
    EXPECT_CLOSE({.heads = heads, .rank = 96, .rope = 6, .keys = 64});
  }
}

TEST_P(LatentBf16, EveryNumberOfKeysAroundTheTile) {
  uint64_t seed = 2;
  for (int64_t keys = 1; keys <= 130; ++keys) {
    EXPECT_CLOSE({.heads = 5, .rank = 32, .rope = 8, .keys = keys});
    if (SlowIsa() && keys % 16 > 2 && keys % 16 < 15) continue;
    EXPECT_CLOSE({.heads = 18, .rank = 66, .rope = 8, .keys = keys, .first = 37});
  }
}

TEST_P(LatentBf16, EveryWidth) {
  uint64_t seed = 3;
  for (int64_t rank = 1; rank <= 130; ++rank) {
    for (const int64_t rope : {2, 15, 16, 64}) {
      // Where it is slow each rank has one rope or two, and each rope ranks of every remainder.
      if (SlowIsa() && (rank + rope) % 3 != 0) continue;
      EXPECT_CLOSE({.heads = 17, .rank = rank, .rope = rope, .keys = 66});
    }
  }
}

TEST_P(LatentBf16, RealShapes) {
  uint64_t seed = 4;
  for (const int64_t heads : {16, 20, 24, 28, 64, 128}) {
    if (SlowIsa() && heads == 128) continue;
    EXPECT_CLOSE({.heads = heads, .rank = 512, .rope = 64, .keys = 100, .first = 10});
  }
  EXPECT_CLOSE({.heads = 16, .rank = 512, .rope = 64, .keys = 700, .first = 10});
  EXPECT_CLOSE({.heads = 40, .rank = 256, .rope = 32, .keys = 100});
  EXPECT_CLOSE({.heads = 32, .rank = 256, .rope = 64, .keys = 100});
  EXPECT_CLOSE({.heads = 16, .rank = 128, .rope = 32, .keys = 100});
}

TEST_P(LatentBf16, SeveralQueryRows) {
  uint64_t seed = 5;
  for (const int64_t rows : {2, 3, 5, 8}) {
    for (const int64_t keys : {1, 4, 8, 33, 63, 64, 66, 130}) {
      for (const int64_t heads : {6, 16, 20}) {
        EXPECT_CLOSE(
            {.rows = rows, .heads = heads, .rank = 40, .rope = 8, .keys = keys, .first = 20});
      }
    }
    EXPECT_CLOSE({.rows = rows, .heads = 16, .rank = 64, .rope = 8, .keys = 128});
  }
}

// With one bf16 part of the query the scores would be off by 2^-9 of 1e3, and the weights anything.
TEST_P(LatentBf16, LargeScores) {
  for (const double scale : {30.0, 1e3}) {
    LatentCase c(Bf16({.heads = 17, .rank = 48, .rope = 8, .keys = 150, .score_scale = scale}), 5);
    const LatentResult got = c.Run(table_);
    const LatentCase::Exact want = c.Want();
    ASSERT_TRUE(Finite(got.out));
    // Errors of the parts are of either sign: a score of n terms of magnitude scale/sqrt(n) is off
    // by about scale·2^-17, taken four times.
    const double bound = std::ldexp(1.01, -8) + std::ldexp(4 * scale, -17);
    for (size_t i = 0; i < want.out.size(); ++i) {
      ASSERT_NEAR(got.out[i], want.out[i], bound * want.largest_value) << scale << " " << i;
    }
  }
}

TEST_P(LatentBf16, EqualKeysGiveTheirValueExactly) {
  LatentCase c(Bf16({.heads = 19, .rank = 33, .rope = 4, .keys = 100}), 6);
  for (int64_t key = 0; key < 100; ++key) {
    for (int64_t x = 0; x < 37; ++x) c.Value(key, x) = c.Value(0, x);
    c.PutRow(key);
  }
  const LatentResult got = c.Run(table_);
  for (size_t i = 0; i < got.out.size(); ++i) {
    // The rounding of the weights cancels: only fp32's is left.
    const float value = c.Value(0, static_cast<int64_t>(i % 33));
    EXPECT_NEAR(got.out[i], value, 1e-5 * std::abs(value));
  }
}

TEST_P(LatentBf16, ABrokenKeyReachesThoseWhoSeeItAndNobodyElse) {
  for (const int64_t heads : {16, 19, 32}) {
    for (const int64_t keys : {9, 36, 64, 80}) {
      if (SlowIsa() && (heads == 32 || keys == 64)) continue;
      const LatentShape s = Bf16({.rows = 8, .heads = heads, .rank = 70, .rope = 4, .keys = keys});
      LatentCase c(s, 7);
      const LatentResult clean = c.Run(table_);
      const auto per_row = s.heads * s.rank;
      for (const int64_t column : {0, 69, 70, 73}) {
        for (const float value : {kNaN, kInfinity}) {
          LatentCase broken(s, 7);
          const int64_t bad = keys - 4;  // seen by the last four rows
          broken.Value(bad, column) = value;
          broken.PutRow(bad);
          const LatentResult got = broken.Run(table_);
          SCOPED_TRACE(testing::Message() << s << " column " << column << " " << value);
          const std::vector<float> before(got.out.begin(), got.out.begin() + 4 * per_row);
          const std::vector<float> want(clean.out.begin(), clean.out.begin() + 4 * per_row);
          EXPECT_TRUE(SameBits(before, want));
          if (value == kInfinity) continue;
          for (int64_t i = 4 * per_row; i < 8 * per_row; ++i) {
            ASSERT_TRUE(std::isnan(got.out[static_cast<size_t>(i)])) << "element " << i;
          }
        }
      }
    }
  }
}

TEST_P(LatentBf16, ABrokenQueryReachesItsHeadOnly) {
  for (const int64_t heads : {16, 19, 30}) {
    for (const int64_t column : {0, 33, 34, 37}) {
      const LatentShape s = Bf16({.heads = heads, .rank = 34, .rope = 4, .keys = 300});
      LatentCase c(s, 9);
      const LatentResult clean = c.Run(table_);
      const int64_t bad = heads - 1;
      c.q[static_cast<size_t>(bad * 38 + column)] = kNaN;
      const LatentResult got = c.Run(table_);
      const auto others = bad * s.rank;
      EXPECT_TRUE(SameBits({got.out.begin(), got.out.begin() + others},
                           {clean.out.begin(), clean.out.begin() + others}))
          << s << " column " << column;
      for (int64_t i = others; i < heads * s.rank; ++i) {
        ASSERT_TRUE(std::isnan(got.out[static_cast<size_t>(i)])) << "element " << i;
      }
    }
  }
}

// An infinite score of c_kv is what fp32 arithmetic makes of it, both parts of the query
// notwithstanding: -inf weighs nothing.
TEST_P(LatentBf16, InfiniteKeysScoreAsInFp32) {
  for (const int64_t heads : {16, 18, 30}) {
    LatentCase c(Bf16({.heads = heads, .rank = 34, .rope = 4, .keys = 70}), 8);
    for (float& x : c.q) x = std::abs(x) + 0.01f;
    for (const int64_t key : {3, 40, 69}) {
      c.Value(key, 33) = -kInfinity;
      c.PutRow(key);
    }
    const LatentResult got = c.Run(table_);
    const LatentResult want = c.Run(FastKernels());
    for (size_t i = 0; i < want.lse.size(); ++i) {
      ASSERT_TRUE(std::isfinite(want.lse[i]));
      EXPECT_NEAR(got.lse[i], want.lse[i], 0.01) << "pair " << i;
    }
    for (size_t i = 0; i < want.out.size(); ++i) {
      EXPECT_EQ(std::isnan(got.out[i]), std::isnan(want.out[i])) << "element " << i;
      if (!std::isnan(want.out[i])) {
        EXPECT_NEAR(got.out[i], want.out[i], 0.02) << i;
      }
    }
  }
}

TEST_P(LatentBf16, ScoresOfMinusInfinityWeighNothing) {
  for (const int64_t keys : {1, 70}) {
    LatentCase c(Bf16({.heads = 18, .rank = 34, .rope = 4, .keys = keys}), 8);
    for (float& x : c.q) x = std::abs(x);
    for (int64_t key = 0; key < keys; ++key) {
      c.Value(key, 35) = -kInfinity;  // in k_rope, so that the values stay finite
      c.PutRow(key);
    }
    LatentResult got = c.Run(table_);
    for (const float x : got.out) EXPECT_EQ(x, 0) << "keys " << keys;
    for (const float x : got.lse) EXPECT_EQ(x, -kInfinity);
    if (keys == 1) continue;
    c.Value(66, 35) = 1;
    c.PutRow(66);
    got = c.Run(table_);
    for (int64_t x = 0; x < 34; ++x) {
      EXPECT_NEAR(got.out[static_cast<size_t>(x)], c.Value(66, x), 1e-6);
    }
  }
}

TEST_P(LatentBf16, APairDoesNotDependOnTheRestOfItsTask) {
  const LatentShape s =
      Bf16({.rows = 5, .heads = 48, .rank = 70, .rope = 8, .keys = 140, .first = 30});
  LatentCase c(s, 10);
  const LatentResult whole = c.Run(table_);
  for (int64_t row = 0; row < s.rows; ++row) {
    for (const int64_t head : {0, 16, 32}) {
      const LatentResult part = c.Run(table_, row, 1, head, 16);
      const auto begin = whole.out.begin() + (row * s.heads + head) * s.rank;
      EXPECT_TRUE(SameBits(part.out, {begin, begin + 16 * s.rank}))
          << s << " row " << row << " head " << head;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LatentBf16, testing::Values("dot", "model", "amx"),
                         [](const auto& param) { return std::string(param.param); });

// 20 heads cost the tiles of 16 and those of 4, not those of 32.
TEST(LatentAmxModel, HeadsBeyondSixteenAreNotPadded) {
  if (!TryDotUnit(DotUnit::kBf16Dot).empty()) GTEST_SKIP() << TryDotUnit(DotUnit::kBf16Dot);
  products = &kModelProducts;
  const KernelTable table = TableOf("model");
  const auto cost = [&](int64_t heads) {
    TileModel::Here() = TileModel();
    LatentShape s{.heads = heads, .rank = 512, .rope = 64, .keys = 64};
    s.type = Elem::kBf16;
    s.rope_type = Elem::kF16;
    s.unit = DotUnit::kAmxBf16;
    LatentCase c(s, 1);
    c.Run(table);
    return TileModel::Here().product_rows;
  };
  // Scores: 64 rows by 16 steps of c_kv and 4 of k_rope for each part; output: 2 steps by 32 blocks
  // for each head.
  EXPECT_EQ(cost(16), 2 * 64 * 20 + 16 * 64);
  EXPECT_EQ(cost(20), 3 * 64 * 20 + 20 * 64);
  EXPECT_EQ(cost(32), 4 * 64 * 20 + 32 * 64);
}

TEST(LatentUnit, EachUnitServesOneKindOfLatents) {
  for (DotUnit unit : kDotUnits) {
    const bool int8 = LatentUnitServes(unit, LatentKind::kInt8);
    EXPECT_EQ(unit == DotUnit::kFma, int8 && LatentUnitServes(unit, LatentKind::k16Bit));
    if (AmxBf16Products() == nullptr && unit != DotUnit::kFma) {
      EXPECT_THROW(LatentUnits().Use(unit), Error);
      continue;
    }
    LatentUnits units = LatentUnits().Use(unit);
    EXPECT_EQ(units.For(Elem::kInt8), int8 ? unit : DotUnit::kFma);
    EXPECT_EQ(units.For(Elem::kBf16), int8 ? DotUnit::kFma : unit);
    units.Use(DotUnit::kFma);
    EXPECT_EQ(units.For(Elem::kInt8), DotUnit::kFma);
    EXPECT_EQ(units.For(Elem::kBf16), DotUnit::kFma);
  }
}

}  // namespace
}  // namespace mla
