#include "engine/sampler.h"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace mla {
namespace {

const std::vector<float> kLogits = {0.0f, 3.0f, 1.0f, 3.0f, 2.0f};

std::map<int32_t, int> Draw(const SamplingOptions& options, int count) {
  std::map<int32_t, int> seen;
  for (int i = 0; i < count; ++i) ++seen[SampleToken(kLogits, {}, i, options)];
  return seen;
}

TEST(Sampler, GreedyTakesTheLowerIdOfEquals) { EXPECT_EQ(SampleToken(kLogits, {}, 0, {}), 1); }

TEST(Sampler, FollowsTheDistribution) {
  const int count = 40000;
  const auto seen = Draw({.temperature = 1}, count);
  double total = 0;
  for (const float x : kLogits) total += std::exp(x);
  for (int32_t id = 0; id < 5; ++id) {
    const double p = std::exp(kLogits[static_cast<size_t>(id)]) / total;
    const double bound = 5 * std::sqrt(p * (1 - p) / count);  // five standard deviations
    EXPECT_NEAR(seen.count(id) ? seen.at(id) / double{count} : 0, p, bound) << id;
  }
}

TEST(Sampler, FiltersKeepTheBest) {
  EXPECT_EQ(Draw({.temperature = 1, .top_k = 1}, 200).size(), 1u);
  EXPECT_EQ(Draw({.temperature = 1, .top_k = 3}, 2000).size(), 3u);
  EXPECT_EQ(Draw({.temperature = 1, .top_p = 0.5}, 2000).size(), 2u);
  EXPECT_EQ(Draw({.temperature = 1, .top_p = 1e-9}, 200).size(), 1u);
  // exp(2 - 3) = 0.37 and exp(1 - 3) = 0.135 of the best.
  EXPECT_EQ(Draw({.temperature = 1, .min_p = 0.2}, 2000).size(), 3u);
  EXPECT_EQ(Draw({.temperature = 1, .min_p = 1}, 200).size(), 2u);
  EXPECT_EQ(Draw({.temperature = 1}, 2000).size(), 5u);
}

TEST(Sampler, RepeatPenaltyLooksAtTheLast64) {
  const SamplingOptions options{.repeat_penalty = 4};
  std::vector<int32_t> history = {1};
  EXPECT_EQ(SampleToken(kLogits, history, 0, options), 3);
  history.push_back(3);
  EXPECT_EQ(SampleToken(kLogits, history, 0, options), 4);
  history.insert(history.end(), 64, 0);
  EXPECT_EQ(SampleToken(kLogits, history, 0, options), 1);
  const std::vector<float> negative = {-1.0f, -1.5f};
  EXPECT_EQ(SampleToken(negative, std::vector<int32_t>{0}, 0, options), 1);
}

TEST(Sampler, SameSeedSameToken) {
  const SamplingOptions a{.temperature = 1, .seed = 7};
  const SamplingOptions b{.temperature = 1, .seed = 8};
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(SampleToken(kLogits, {}, i, a), SampleToken(kLogits, {}, i, a));
    different += SampleToken(kLogits, {}, i, a) != SampleToken(kLogits, {}, i, b);
  }
  EXPECT_GT(different, 10);
}

TEST(Sampler, RefusesNonsense) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  ExpectError(ErrorCode::kUsage, {"temperature"}, [&] { ValidateSampling({.temperature = -1}); });
  ExpectError(ErrorCode::kUsage, {"temperature"}, [&] { ValidateSampling({.temperature = kNaN}); });
  ExpectError(ErrorCode::kUsage, {"top-k"}, [&] { ValidateSampling({.top_k = -1}); });
  ExpectError(ErrorCode::kUsage, {"top-p"}, [&] { ValidateSampling({.top_p = 0}); });
  ExpectError(ErrorCode::kUsage, {"top-p"}, [&] { ValidateSampling({.top_p = kNaN}); });
  ExpectError(ErrorCode::kUsage, {"min-p"}, [&] { ValidateSampling({.min_p = 1.5}); });
  ExpectError(ErrorCode::kUsage, {"repeat-penalty"},
              [&] { ValidateSampling({.repeat_penalty = 0}); });
}

}  // namespace
}  // namespace mla
