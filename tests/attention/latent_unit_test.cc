// Whole attention paths with each unit for bf16 latents forced, where this processor has it.
#include "kernels/latent_unit.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace mla {
namespace {

constexpr Way kLatentWays[] = {kComposedWay, kSplitWay};
constexpr MlaGeometry kGlm = {20, 16, 64, 24, 512, 0};
constexpr MlaGeometry kManyHeads = {33, 12, 6, 10, 72, 0};

class LatentUnitPaths : public testing::TestWithParam<DotUnit> {
 protected:
  void SetUp() override {
    const std::string why_not = TryDotUnit(GetParam());
    if (!why_not.empty()) GTEST_SKIP() << DotUnitName(GetParam()) << ": " << why_not;
    units_.Use(GetParam());
  }
  LatentUnits units_;
};

// Against what the cache holds: weights are rounded to 8 bits, by at most 2^-9 each, which moves a
// mean of values by at most 2·2^-9 of the largest latent (tests/kernels/latent_bf16_test.cc). The
// up-projection's outputs are sums of those, so in units of the largest output the bound is not
// exact: what random shapes give is a sixth of it.
TEST_P(LatentUnitPaths, EveryWindow) {
  for (const MlaGeometry& g : {kSmall, kOdd, kManyHeads, kGlm}) {
    for (const int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 129, 255, 256, 257, 700}) {
      const AttentionCase c(g, window, 1, static_cast<uint64_t>(window));
      const std::vector<double> stored = c.Want(CacheLayout::kLatent, Elem::kBf16).out;
      const std::vector<double> exact = c.Want(CacheLayout::kLatent, Elem::kF32).out;
      for (const Way& way : kLatentWays) {
        const std::vector<float> got = RunCase(c, way, {.type = Elem::kBf16, .units = units_});
        EXPECT_LT(RelativeError(got, stored), std::ldexp(1.0, -8)) << way.name << " " << window;
        // The bound for 16-bit caches: the rounding of the cache included.
        EXPECT_LT(RelativeError(got, exact), 6e-3) << way.name << " window " << window;
      }
    }
  }
}

TEST_P(LatentUnitPaths, TheUnitIsReallyUsedForBf16AndNothingElse) {
  const AttentionCase c(kOdd, 200, 1, 3);
  const auto run = [&](Elem type, DotUnit unit) {
    return RunCase(c, kComposedWay, {.type = type, .units = LatentUnits().Use(unit)});
  };
  for (const Elem type : {Elem::kBf16, Elem::kF16, Elem::kF32}) {
    EXPECT_EQ(run(type, GetParam()) != run(type, DotUnit::kFma), type == Elem::kBf16);
  }
}

TEST_P(LatentUnitPaths, SeveralRowsAndAnyFirstPosition) {
  for (const MlaGeometry& g : {kSmall, kOdd, kGlm}) {
    for (const int64_t rows : {2, 5, 17}) {
      for (const int64_t first : {0, 63, 100}) {
        const AttentionCase c(g, 90, rows, static_cast<uint64_t>(rows + first));
        const std::vector<double> stored = c.Want(CacheLayout::kLatent, Elem::kBf16).out;
        for (const Way& way : kLatentWays) {
          const CaseOptions options = {
              .type = Elem::kBf16, .first_position = first, .units = units_};
          EXPECT_LT(RelativeError(RunCase(c, way, options), stored), std::ldexp(1.0, -8))
              << way.name << " rows " << rows << " first " << first;
        }
      }
    }
  }
}

TEST_P(LatentUnitPaths, ForcedChunks) {
  const AttentionCase c(kOdd, 37, 1, 5);
  const std::vector<double> stored = c.Want(CacheLayout::kLatent, Elem::kBf16).out;
  for (const int64_t chunk : {1, 8, 16, 37, 64}) {
    const CaseOptions options = {
        .type = Elem::kBf16, .split_chunk = chunk, .first_position = 250, .units = units_};
    EXPECT_LT(RelativeError(RunCase(c, kSplitWay, options), stored), std::ldexp(1.0, -8)) << chunk;
  }
}

// Many rows: the prefill kernel, where the weights are bf16. Beside the cache it rounds keys,
// values and weights to 8 bits: 2^-9 of a key moves a score by at most that of the sum of its
// terms, here up to about 4, which counts twice in a mean; a value by 2^-9, a weight by 2·2^-9.
TEST_P(LatentUnitPaths, ManyRowsByTheUnitToo) {
  for (const MlaGeometry& g : {kSmall, kOdd, kManyHeads, kGlm}) {
    const int64_t limit = AbsorbedRowLimit(g);
    for (const int64_t rows : {limit + 1, int64_t{90}, int64_t{300}, int64_t{600}}) {
      if (rows > 90 && g.heads != kSmall.heads) continue;  // the answer in double takes long
      for (const int64_t first : {0, 77, 230}) {
        const auto seed = static_cast<uint64_t>(rows + first);
        const AttentionCase c(g, rows + first % 50, rows, seed, Elem::kBf16);
        for (const Elem type : {Elem::kBf16, Elem::kInt8}) {
          const CaseOptions options = {.type = type, .first_position = first, .units = units_};
          const std::vector<float> got = RunCase(c, kComposedWay, options);
          const double error = RelativeError(got, c.Want(CacheLayout::kLatent, type).out);
          EXPECT_LT(error, 0x1p-8 + 0x1p-9 + 2 * 4 * 0x1p-9)
              << "rows " << rows << " first " << first << " int8 " << (type == Elem::kInt8);
          CaseOptions plain = options;
          plain.units = {};
          EXPECT_NE(got, RunCase(c, kComposedWay, plain)) << "the unit is not used";
        }
      }
    }
  }
}

// As many threads as there are heads, more, and fewer.
TEST_P(LatentUnitPaths, PrefillDoesNotDependOnTheThreads) {
  const AttentionCase c(kOdd, 300, 280, 6, Elem::kBf16);
  const CaseOptions one = {.type = Elem::kBf16, .threads = 1, .units = units_};
  const std::vector<float> want = RunCase(c, kComposedWay, one);
  for (const int threads : {2, 5, 16}) {
    CaseOptions options = one;
    options.threads = threads;
    EXPECT_EQ(RunCase(c, kComposedWay, options), want) << threads;
  }
}

// Rows of the units for int8, by every path and window.
class Int8UnitPaths : public testing::TestWithParam<DotUnit> {};

// A weight times its row's scale has 15 bits, a query 15 or more: the rows are what they are, so
// the cache's own rounding does not count.
TEST_P(Int8UnitPaths, EveryWindow) {
  const std::string why_not = TryDotUnit(GetParam());
  if (!why_not.empty()) GTEST_SKIP() << DotUnitName(GetParam()) << ": " << why_not;
  const LatentUnits units = LatentUnits().Use(GetParam());
  for (const MlaGeometry& g : {kSmall, kOdd, kManyHeads, kGlm}) {
    for (const int64_t window : {1, 17, 64, 129, 256, 257, 700}) {
      const AttentionCase c(g, window, 1, static_cast<uint64_t>(window));
      const std::vector<double> stored = c.Want(CacheLayout::kLatent, Elem::kInt8).out;
      for (const Way& way : kLatentWays) {
        const std::vector<float> got = RunCase(c, way, {.type = Elem::kInt8, .units = units});
        EXPECT_LT(RelativeError(got, stored), 1e-3) << way.name << " " << window;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Units, Int8UnitPaths,
                         testing::Values(DotUnit::kFma, DotUnit::kVnni512, DotUnit::kVnni256,
                                         DotUnit::kAmxInt8),
                         [](const auto& param) {
                           std::string name = DotUnitName(param.param);
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return name;
                         });

INSTANTIATE_TEST_SUITE_P(Units, LatentUnitPaths,
                         testing::Values(DotUnit::kBf16Dot, DotUnit::kAmxBf16),
                         [](const auto& param) {
                           return param.param == DotUnit::kBf16Dot ? "bf16dot" : "amx";
                         });

}  // namespace
}  // namespace mla
