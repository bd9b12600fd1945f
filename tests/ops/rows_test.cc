#include "ops/rows.h"

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/op_harness.h"

namespace mla {
namespace {

TEST(GatherRows, EveryTypeAnyOrder) {
  Random random(1);
  for (const int threads : {1, 3}) {
    OpHarness harness(threads);
    for (const Elem type : kAllElems) {
      for (const int64_t cols : {1, 9, 64, 77}) {
        const StoredMatrix table = StoredMatrix::Normal(random, 30, cols, type, 1, 4);
        std::vector<int32_t> ids = {29, 0, 3, 3, 28, 7, 1, 0, 15, 29, 12};
        for (const size_t count : {size_t{0}, size_t{1}, size_t{8}, ids.size()}) {
          std::vector<float> y(ids.size() * static_cast<size_t>(cols), -5);
          GatherRows(harness.context, ViewOf(table), std::span(ids).first(count), y.data());
          for (size_t i = 0; i < ids.size(); ++i) {
            for (int64_t x = 0; x < cols; ++x) {
              const double want = i < count ? table.At(ids[i], x) : -5;
              ASSERT_EQ(y[i * static_cast<size_t>(cols) + static_cast<size_t>(x)], want);
            }
          }
        }
      }
    }
  }
}

TEST(FirstNonFiniteRow, TheFirstOfAll) {
  for (const int threads : {1, 2, 7}) {
    OpHarness harness(threads);
    constexpr int64_t kRows = 100, kWidth = 19;
    const auto first = [&](const std::vector<float>& x) {
      return FirstNonFiniteRow(harness.context, x.data(), kRows, kWidth);
    };
    std::vector<float> x(kRows * kWidth, 1);
    EXPECT_EQ(first(x), -1);
    EXPECT_EQ(FirstNonFiniteRow(harness.context, x.data(), 0, kWidth), -1);
    for (const float bad : {kNaN, kInfinity, -kInfinity}) {
      for (const int64_t row : {0, 1, 7, 8, 50, 99}) {
        for (const int64_t column : {0, 15, 18}) {
          std::vector<float> y = x;
          y[static_cast<size_t>(row * kWidth + column)] = bad;
          EXPECT_EQ(first(y), row) << bad << " column " << column;
        }
      }
    }
    // Many at once, found in any order by the threads.
    for (int round = 0; round < 50; ++round) {
      std::vector<float> y = x;
      for (int64_t row = round; row < kRows; row += 3) y[static_cast<size_t>(row * kWidth)] = kNaN;
      EXPECT_EQ(first(y), round);
    }
  }
}

TEST(RmsNormRows, StridesAndInPlace) {
  Random random(2);
  OpHarness harness(2);
  constexpr int64_t kRows = 19, kWidth = 37;
  StoredMatrix x = StoredMatrix::Normal(random, kRows, kWidth, Elem::kF32, 1, 3);
  const std::vector<float> w = random.Normals(kWidth);
  std::vector<float> y(kRows * (kWidth + 2), -5);
  RmsNormRows(harness.context, static_cast<const float*>(x.data()), x.stride(), w.data(), 1e-5,
              y.data(), kWidth + 2, kRows, kWidth);
  for (int64_t i = 0; i < kRows; ++i) {
    std::vector<float> want(kWidth);
    reference::RmsNorm(x.values().data() + i * kWidth, w.data(), 1e-5f, want.data(), kWidth);
    const auto row = y.begin() + i * (kWidth + 2);
    EXPECT_LT(RelativeError(std::vector<float>(row, row + kWidth), want), 1e-6) << "row " << i;
    EXPECT_EQ(row[kWidth], -5);
    EXPECT_EQ(row[kWidth + 1], -5);
  }
  std::vector<float> same = x.values();
  RmsNormRows(harness.context, same.data(), kWidth, w.data(), 1e-5, same.data(), kWidth, kRows,
              kWidth);
  for (int64_t i = 0; i < kRows; ++i) {
    EXPECT_TRUE(SameBits({same.begin() + i * kWidth, same.begin() + (i + 1) * kWidth},
                         {y.begin() + i * (kWidth + 2), y.begin() + i * (kWidth + 2) + kWidth}));
  }
}

}  // namespace
}  // namespace mla
