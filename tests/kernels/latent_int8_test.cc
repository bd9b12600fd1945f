// The kernels over int8 latent rows against double, with bounds from their roundings, on every
// family that this machine has, and AMX on a model of the tiles too.
#include "kernels/latent_int8.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/isa.h"
#include "kernels/latent_unit.h"
#include "kernels/x86/latent_int8_tiles.h"
#include "support/latent_case.h"
#include "support/tile_model.h"

namespace mla {
namespace {

constexpr Int8TileProducts kModelProducts = LatentInt8Tiles<ModelTiles>::Products();

KernelTable ModelTable() {
  KernelTable table = FastKernels();
  table.name = "model";
  table.latent_begin = [](const LatentTask& t) noexcept { LatentInt8AmxBegin(t, kModelProducts); };
  table.latent_tile = [](const LatentTask& t, const LatentTileRows& r) noexcept {
    LatentInt8AmxTile(t, r, kModelProducts);
  };
  table.latent_finish = [](const LatentTask& t) noexcept {
    LatentInt8AmxFinish(t, kModelProducts);
  };
  return table;
}

// Puts the unit of the name into `unit`; why it cannot, or "".
std::string FindUnit(const std::string& name, DotUnit& unit) {
  unit = DotUnit::kFma;
  if (name == "reference" || name == "pairs") return "";
  if (name == "vnni") {
    for (const DotUnit vnni : {DotUnit::kVnni512, DotUnit::kVnni256}) {
      if (!TryDotUnit(vnni).empty()) continue;
      unit = vnni;
      if (std::string(Int8LatentFamily(vnni)) == DotUnitName(vnni)) return "";
    }
    return "no VNNI with this ISA";
  }
  // The parts around the model's products need AVX-512.
  const DotUnit needed = name == "model" ? DotUnit::kVnni512 : DotUnit::kAmxInt8;
  if (!DotUnitFitsIsa(needed, ChosenIsa())) return "not with this ISA";
  // The model's scratch is that of the tiles.
  unit = DotUnit::kAmxInt8;
  return TryDotUnit(needed);
}

LatentShape Int8(LatentShape s, DotUnit unit) {
  s.type = Elem::kInt8;
  s.rope_type = Elem::kF16;
  s.unit = unit;
  return s;
}

// Rows of very different size, so that the scales matter.
LatentCase CaseWith(DotUnit unit, const LatentShape& shape, uint64_t seed) {
  LatentCase c(Int8(shape, unit), seed);
  for (int64_t key = 0; key < c.s.keys; ++key) {
    const float size = key % 5 == 0 ? 3.0f : key % 3 == 0 ? 0.02f : 1.0f;
    for (int64_t x = 0; x < c.s.rank + c.s.rope; ++x) c.Value(key, x) *= size;
    c.PutRow(key);
  }
  return c;
}

class LatentInt8 : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string why_not = FindUnit(GetParam(), unit_);
    if (!why_not.empty()) GTEST_SKIP() << GetParam() << ": " << why_not;
    TileModel::Here() = TileModel();
  }
  void TearDown() override {
    EXPECT_EQ(TileModel::Here().fault, "");
    EXPECT_EQ(TileModel::Here().config.palette, 0) << "tiles were not released";
  }

  LatentCase CaseOf(const LatentShape& shape, uint64_t seed) const {
    return CaseWith(unit_, shape, seed);
  }
  LatentInt8Bounds BoundsOf(const LatentCase& c, const LatentCase::Exact& want) const {
    return name_ == "model" || name_ == "amx" ? Int8AmxBounds(c, want) : Int8VectorBounds(c, want);
  }

  DotUnit unit_ = DotUnit::kFma;
  const std::string name_ = GetParam();
  const KernelTable table_ = name_ == "model"       ? ModelTable()
                             : name_ == "reference" ? ReferenceKernels()
                                                    : FastKernels();
};

void ExpectClose(LatentCase& c, const LatentResult& got, const LatentCase::Exact& want,
                 const LatentInt8Bounds& bound) {
  ASSERT_TRUE(c.intact) << "wrote beyond the scratch";
  for (size_t i = 0; i < want.out.size(); ++i) {
    ASSERT_NEAR(got.out[i], want.out[i], bound.out * std::max(want.largest_value, 1e-30))
        << "element " << i;
  }
  for (size_t i = 0; i < want.lse.size(); ++i) {
    if (std::isinf(want.lse[i])) {
      ASSERT_EQ(got.lse[i], -kInfinity) << "pair " << i;
    } else {
      ASSERT_NEAR(got.lse[i], want.lse[i], bound.lse + 4 * kRoundF32 * std::abs(want.lse[i]))
          << "pair " << i;
    }
  }
}

#define EXPECT_CLOSE(...)                                          \
  do {                                                             \
    LatentCase c_ = CaseOf(__VA_ARGS__, seed++);                   \
    SCOPED_TRACE(testing::Message() << GetParam() << " " << c_.s); \
    const LatentCase::Exact want_ = c_.Want();                     \
    ExpectClose(c_, c_.Run(table_), want_, BoundsOf(c_, want_));   \
    if (HasFatalFailure()) return;                                 \
  } while (false)

TEST_P(LatentInt8, EveryNumberOfHeads) {
  uint64_t seed = 1;
  for (int64_t heads = 1; heads <= 41; ++heads) {
    EXPECT_CLOSE({.heads = heads, .rank = 41, .rope = 6, .keys = 70, .first = 230});
    EXPECT_CLOSE({.heads = heads, .rank = 128, .rope = 6, .keys = 64});
  }
}

TEST_P(LatentInt8, EveryNumberOfKeysAroundBlocksRunsAndTiles) {
  uint64_t seed = 2;
  std::vector<int64_t> counts;
  for (int64_t keys = 1; keys <= 70; ++keys) counts.push_back(keys);
  for (const int64_t keys :
       {95, 96, 97, 127, 128, 129, 191, 192, 193, 254, 255, 256, 257, 258, 272, 512, 513}) {
    counts.push_back(keys);
  }
  for (const int64_t keys : counts) {
    EXPECT_CLOSE({.heads = 16, .rank = 64, .rope = 8, .keys = keys});
    EXPECT_CLOSE({.heads = 18, .rank = 66, .rope = 8, .keys = keys, .first = 37});
  }
}

TEST_P(LatentInt8, EveryWidth) {
  uint64_t seed = 3;
  for (int64_t rank = 1; rank <= 130; ++rank) {
    for (const int64_t rope : {2, 14, 16, 64}) {
      EXPECT_CLOSE({.heads = 17, .rank = rank, .rope = rope, .keys = 66});
    }
  }
  EXPECT_CLOSE({.heads = 7, .rank = 128, .rope = 130, .keys = 63});
  EXPECT_CLOSE({.heads = 17, .rank = 4096, .rope = 2, .keys = 70});
}

TEST_P(LatentInt8, RealShapes) {
  uint64_t seed = 4;
  for (const int64_t heads : {16, 20, 64, 128}) {
    EXPECT_CLOSE({.heads = heads, .rank = 512, .rope = 64, .keys = 100, .first = 10});
  }
  EXPECT_CLOSE({.heads = 16, .rank = 512, .rope = 64, .keys = 700, .first = 10});
  EXPECT_CLOSE({.heads = 40, .rank = 256, .rope = 32, .keys = 100});
  EXPECT_CLOSE({.heads = 17, .rank = 512, .rope = 64, .keys = 77, .score_scale = 30});
}

TEST_P(LatentInt8, SeveralQueryRows) {
  uint64_t seed = 5;
  for (const int64_t rows : {2, 3, 5, 8}) {
    for (const int64_t keys : {1, 4, 8, 17, 33, 63, 64, 66, 130, 260}) {
      for (const int64_t heads : {6, 16, 20}) {
        EXPECT_CLOSE(
            {.rows = rows, .heads = heads, .rank = 40, .rope = 8, .keys = keys, .first = 20});
      }
    }
    EXPECT_CLOSE({.rows = rows, .heads = 16, .rank = 64, .rope = 8, .keys = 128});
  }
}

TEST_P(LatentInt8, TilesOfAnyLength) {
  for (const int64_t tile_rows : {1, 5, 37, 64, 100}) {
    LatentCase c = CaseOf({.rows = 3, .heads = 21, .rank = 72, .rope = 8, .keys = 150}, 6);
    c.tile_rows = tile_rows;
    SCOPED_TRACE(testing::Message() << GetParam() << " tiles of " << tile_rows);
    const LatentCase::Exact want = c.Want();
    ExpectClose(c, c.Run(table_), want, BoundsOf(c, want));
  }
}

// Queries whose inverse is no fp32 number, and ones near its end.
TEST_P(LatentInt8, QueriesOfAnySize) {
  for (const float size : {1e-42f, 1e-38f, 1e-30f, 1e-8f, 1e20f}) {
    LatentCase c = CaseOf({.heads = 3, .rank = 70, .rope = 4, .keys = 40}, 7);
    for (size_t i = 0; i < c.q.size(); ++i) c.q[i] *= i % 74 < 70 ? size : 1.0f;
    if (size > 1) {
      for (int64_t key = 0; key < 40; ++key) {
        for (int64_t x = 0; x < 70; ++x) c.Value(key, x) /= size;
        c.PutRow(key);
      }
    }
    SCOPED_TRACE(testing::Message() << GetParam() << " size " << size);
    const LatentCase::Exact want = c.Want();
    ExpectClose(c, c.Run(table_), want, BoundsOf(c, want));
  }
}

TEST_P(LatentInt8, APairDoesNotDependOnTheRestOfItsTask) {
  const LatentShape s = {.rows = 5, .heads = 40, .rank = 70, .rope = 8, .keys = 140, .first = 130};
  LatentCase c = CaseOf(s, 10);
  // Of another pair, and of a key that only the last row sees.
  c.q[78 * (2 * 40 + 5) + 3] = kNaN;
  c.q[78 * (2 * 40 + 6) + 73] = kInfinity;
  c.Value(139, 1) = kNaN;
  c.PutRow(139);
  const LatentResult whole = c.Run(table_);
  for (int64_t row = 0; row < s.rows; ++row) {
    for (const int64_t head : {0, 3, 16, 33}) {
      for (const int64_t heads : {1, 7}) {
        const LatentResult part = c.Run(table_, row, 1, head, heads);
        const auto begin = whole.out.begin() + (row * s.heads + head) * s.rank;
        EXPECT_TRUE(SameBits(part.out, {begin, begin + heads * s.rank}))
            << s << " row " << row << " head " << head << " of " << heads;
      }
    }
  }
}

TEST_P(LatentInt8, ABrokenKeyReachesThoseWhoSeeItAndNobodyElse) {
  for (const int64_t heads : {16, 19, 32}) {
    for (const int64_t keys : {9, 36, 64, 80}) {
      const LatentShape s = {.rows = 8, .heads = heads, .rank = 70, .rope = 4, .keys = keys};
      LatentCase c = CaseOf(s, 7);
      const LatentResult clean = c.Run(table_);
      const auto per_row = s.heads * s.rank;
      for (const int64_t column : {0, 69, 70, 73}) {
        for (const float value : {kNaN, kInfinity}) {
          // An infinite rotated element may give the score -inf, which is a weight of 0.
          const bool may_vanish = column >= s.rank && value == kInfinity;
          LatentCase broken = CaseOf(s, 7);
          const int64_t bad = keys - 4;  // seen by the last four rows
          broken.Value(bad, column) = value;
          broken.PutRow(bad);
          const LatentResult got = broken.Run(table_);
          SCOPED_TRACE(testing::Message() << s << " column " << column << " " << value);
          const std::vector<float> before(got.out.begin(), got.out.begin() + 4 * per_row);
          const std::vector<float> want(clean.out.begin(), clean.out.begin() + 4 * per_row);
          EXPECT_TRUE(SameBits(before, want));
          if (may_vanish) continue;
          for (int64_t i = 4 * per_row; i < 8 * per_row; ++i) {
            ASSERT_TRUE(std::isnan(got.out[static_cast<size_t>(i)])) << "element " << i;
          }
        }
      }
    }
  }
}

TEST_P(LatentInt8, ABrokenQueryReachesItsOwnHead) {
  for (const float value : {kNaN, kInfinity}) {
    for (const int64_t column : {0, 40, 41, 46}) {
      LatentCase c = CaseOf({.rows = 3, .heads = 5, .rank = 41, .rope = 6, .keys = 70}, 7);
      c.q[static_cast<size_t>(47 * 6 + column)] = value;  // row 1, head 1
      const LatentResult got = c.Run(table_);
      for (int64_t pair = 0; pair < 15; ++pair) {
        const auto at = got.out.begin() + pair * 41;
        EXPECT_EQ(Finite({at, at + 41}), pair != 6) << "column " << column << " pair " << pair;
      }
    }
  }
}

// As in fp32, both parts of a query notwithstanding.
TEST_P(LatentInt8, ScoresOfMinusInfinityWeighNothing) {
  for (const int64_t keys : {1, 70}) {
    LatentCase c = CaseOf({.heads = 18, .rank = 34, .rope = 4, .keys = keys}, 8);
    for (float& x : c.q) x = std::abs(x) + 0.01f;
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
      EXPECT_NEAR(got.out[static_cast<size_t>(x)], c.Value(66, x),
                  1e-4 * std::abs(c.Value(66, x)) + 1e-4);
    }
  }
}

// 20,000 equal keys of weight 1 after a dominant one: what they add up to is not lost.
TEST_P(LatentInt8, LongFlatTail) {
  LatentCase c(Int8({.heads = 4, .rank = 16, .rope = 2, .keys = 20000}, unit_), 3);
  std::fill(c.q.begin(), c.q.end(), 0.0f);
  for (int64_t head = 0; head < 4; ++head) c.q[static_cast<size_t>(head * 18)] = 12;
  for (int64_t key = 0; key < c.s.keys; ++key) {
    for (int64_t x = 0; x < 18; ++x) c.Value(key, x) = x == (key == 0 ? 0 : 1) ? 1.0f : 0.0f;
    c.PutRow(key);
  }
  const double peak_weight = std::exp(12.0);  // 162,755 against 19,999 ones
  const double want = 19999 / (19999 + peak_weight);
  const LatentResult got = c.Run(table_);
  for (int64_t head = 0; head < 4; ++head) {
    // The other weights of the first tile are below half a step of its largest, and only they.
    EXPECT_NEAR(got.out[static_cast<size_t>(head * 16 + 1)], want, want * (255.0 / 19999 + 2e-4));
    EXPECT_NEAR(got.out[static_cast<size_t>(head * 16)], 1 - want, 255.0 / 162755 + 2e-4);
  }
}

TEST_P(LatentInt8, NoVisibleKeyGivesZeros) {
  // The first two rows see none.
  LatentCase c = CaseOf({.rows = 4, .heads = 19, .rank = 41, .rope = 6, .keys = 2}, 9);
  const LatentResult got = c.Run(table_);
  for (int64_t i = 0; i < 2 * 19 * 41; ++i) ASSERT_EQ(got.out[static_cast<size_t>(i)], 0.0f);
  for (int64_t i = 0; i < 2 * 19; ++i) ASSERT_EQ(got.lse[static_cast<size_t>(i)], -kInfinity);
}

INSTANTIATE_TEST_SUITE_P(Families, LatentInt8,
                         testing::Values("reference", "pairs", "vnni", "model", "amx"),
                         [](const auto& param) { return std::string(param.param); });

// Sums of integers are exact, so the vector unit changes no bit.
TEST(LatentInt8Families, VectorsAgreeBitForBit) {
  for (const LatentShape& s :
       {LatentShape{.heads = 16, .rank = 512, .rope = 64, .keys = 150},
        LatentShape{.rows = 3, .heads = 21, .rank = 41, .rope = 6, .keys = 70}}) {
    DotUnit unit;
    if (const std::string why_not = FindUnit("vnni", unit); !why_not.empty()) {
      GTEST_SKIP() << why_not;
    }
    LatentCase c = CaseWith(unit, s, 50);
    const LatentResult with = c.Run(FastKernels());
    c.format.unit = DotUnit::kFma;
    EXPECT_STREQ(LatentKernelName(c.format), "pairs");
    const LatentResult without = c.Run(FastKernels());
    EXPECT_TRUE(SameBits(with.out, without.out)) << s;
    EXPECT_TRUE(SameBits(with.lse, without.lse)) << s;
  }
}

// 20 heads cost the tiles of 16 and those of 4 with both parts, not those of 32.
TEST(LatentInt8Families, HeadsBeyondSixteenAreNotPadded) {
  DotUnit unit;
  if (const std::string why_not = FindUnit("model", unit); !why_not.empty()) {
    GTEST_SKIP() << why_not;
  }
  const KernelTable table = ModelTable();
  const auto cost = [&](int64_t heads) {
    TileModel::Here() = TileModel();
    LatentCase c = CaseWith(unit, {.heads = heads, .rank = 512, .rope = 64, .keys = 64}, 1);
    c.Run(table);
    return TileModel::Here().product_rows;
  };
  // Scores: 64 rows by 8 steps of c_kv and 4 of k_rope for each part; output: 32 blocks of columns
  // for both parts of each head.
  EXPECT_EQ(cost(16), 2 * 64 * 12 + 2 * 16 * 32);
  EXPECT_EQ(cost(20), 3 * 64 * 12 + 2 * 20 * 32);
  EXPECT_EQ(cost(32), 4 * 64 * 12 + 2 * 32 * 32);
}

TEST(LatentInt8Rows, AreWithinHalfAStep) {
  Random random(5);
  for (const int64_t rank : {1, 3, 41, 64, 512}) {
    for (const double size : {1e-30, 1e-3, 1.0, 1e30}) {
      const std::vector<float> x = random.Normals(rank, size);
      std::vector<char> row(static_cast<size_t>(Int8RowBytes(rank, 2)));
      std::vector<float> back(x.size());
      QuantizeInt8Row(x.data(), rank, row.data());
      DequantizeInt8Row(row.data(), rank, back.data());
      double largest = 0;
      for (const float v : x) largest = std::max(largest, std::fabs(double{v}));
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(back[i], x[i], largest * (1 / 254.0 + 0x1p-22));
      }
    }
  }
  const std::vector<float> zeros(8, 0.0f);
  std::vector<char> row(static_cast<size_t>(Int8RowBytes(8, 2)));
  std::vector<float> back(8, kNaN);
  QuantizeInt8Row(zeros.data(), 8, row.data());
  DequantizeInt8Row(row.data(), 8, back.data());
  EXPECT_EQ(back, zeros);
}

}  // namespace
}  // namespace mla
