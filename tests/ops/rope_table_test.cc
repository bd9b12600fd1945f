#include "ops/rope_table.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "support/compare.h"

namespace mla {
namespace {

RopeConfig Yarn(double theta, double factor, int64_t original, double beta_fast, double beta_slow) {
  RopeConfig config;
  config.type = RopeType::kYarn;
  config.theta = theta;
  config.factor = factor;
  config.original_max_positions = original;
  config.beta_fast = beta_fast;
  config.beta_slow = beta_slow;
  return config;
}

TEST(RopeFrequencies, Default) {
  for (const double theta : {1e4, 5e4, 1e6}) {
    RopeConfig config;
    config.theta = theta;
    for (const int64_t dim : {2, 6, 32, 64}) {
      const std::vector<float> freq = RopeFrequencies(config, dim);
      ASSERT_EQ(static_cast<int64_t>(freq.size()), dim / 2);
      EXPECT_EQ(freq[0], 1);
      for (int64_t i = 0; i < dim / 2; ++i) {
        const double want =
            1 / std::pow(theta, 2.0 * static_cast<double>(i) / static_cast<double>(dim));
        EXPECT_NEAR(freq[static_cast<size_t>(i)], want, 2 * kRoundF32 * want);
      }
    }
  }
}

// The ramp of known models: dimensions up to `low` keep their frequency, those from `high` on are
// slowed down by the whole factor, those between by a part that grows evenly.
TEST(RopeFrequencies, YarnRangesOfKnownModels) {
  const struct {
    const char* name;
    RopeConfig config;
    int low, high;
  } table[] = {{"DeepSeek-V3", Yarn(1e4, 40, 4096, 32, 1), 10, 23},
               {"Kimi-K2", Yarn(5e4, 32, 4096, 1, 1), 19, 20},
               {"Kimi-K2.5", Yarn(5e4, 64, 4096, 32, 1), 8, 20},
               {"Mistral 4", Yarn(1e4, 128, 8192, 32, 1), 12, 25}};
  for (const auto& t : table) {
    const std::vector<float> freq = RopeFrequencies(t.config, 64);
    for (int i = 0; i < 32; ++i) {
      const double plain = std::pow(t.config.theta, -i / 32.0);
      const double ramp = std::clamp(static_cast<double>(i - t.low) / (t.high - t.low), 0.0, 1.0);
      const double want = plain * (1 - ramp) + plain / t.config.factor * ramp;
      EXPECT_NEAR(freq[static_cast<size_t>(i)], want, 2 * kRoundF32 * want) << t.name << " " << i;
    }
  }
}

TEST(RopeFrequencies, YarnWithoutTruncation) {
  RopeConfig config = Yarn(1e4, 40, 4096, 32, 1);
  config.truncate = false;
  const auto correction = [](double beta) {
    return 64 * std::log(4096 / (2 * std::numbers::pi * beta)) / (2 * std::log(1e4));
  };
  const double low = correction(32);
  const double high = correction(1);
  EXPECT_GT(low, 10);
  EXPECT_LT(high, 23);
  const std::vector<float> freq = RopeFrequencies(config, 64);
  for (int i = 0; i < 32; ++i) {
    const double plain = std::pow(1e4, -i / 32.0);
    const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    const double want = plain / 40 * ramp + plain * (1 - ramp);
    EXPECT_NEAR(freq[static_cast<size_t>(i)], want, 2 * kRoundF32 * want) << i;
  }
}

// low == high makes a step, not a division by zero; ranges are clamped to the dimensions.
TEST(RopeFrequencies, YarnEdges) {
  RopeConfig config = Yarn(1e4, 8, 1 << 20, 1, 1);
  config.truncate = false;  // one correction for both
  const std::vector<float> step = RopeFrequencies(config, 16);
  for (const float f : step) EXPECT_TRUE(std::isfinite(f) && f > 0);
  EXPECT_FLOAT_EQ(step[0], 1);
  for (const auto& extreme : {Yarn(1e4, 8, 1, 32, 1), Yarn(1e4, 8, int64_t{1} << 40, 32, 1)}) {
    for (const float f : RopeFrequencies(extreme, 16)) EXPECT_TRUE(std::isfinite(f) && f > 0);
  }
}

TEST(YarnMagnitude, KnownValues) {
  EXPECT_NEAR(YarnMagnitude(40, 0.707), 1.260804, 1e-6);
  EXPECT_NEAR(std::pow(YarnMagnitude(40, 0.707), 2), 1.589626, 1e-6);
  EXPECT_NEAR(YarnMagnitude(40, 1), 1.368888, 1e-6);
  EXPECT_NEAR(std::pow(YarnMagnitude(40, 1), 2), 1.873854, 1e-6);
  EXPECT_NEAR(YarnMagnitude(32, 1), 1.346574, 1e-6);
  EXPECT_NEAR(YarnMagnitude(64, 1), 1.415888, 1e-6);
  EXPECT_NEAR(YarnMagnitude(128, 1), 1.485203, 1e-6);
  EXPECT_EQ(YarnMagnitude(1, 1), 1);
  EXPECT_EQ(YarnMagnitude(0.5, 1), 1);
  EXPECT_EQ(YarnMagnitude(40, 0), 1);
}

TEST(RopeRows, AnglesAreRoundedToFp32) {
  RopeConfig config;
  const std::vector<float> freq = RopeFrequencies(config, 8);
  const std::vector<int64_t> positions = {0, 1, 7, 4096, 100003, 3};
  for (const double factor : {1.0, 1.25}) {
    config.attention_factor = factor;
    std::vector<float> cos(24, kNaN), sin(24, kNaN);
    RopeRows(config, freq, positions, cos.data(), sin.data());
    for (size_t i = 0; i < positions.size(); ++i) {
      for (size_t j = 0; j < 4; ++j) {
        const float angle = static_cast<float>(positions[i]) * freq[j];
        EXPECT_NEAR(cos[i * 4 + j], factor * std::cos(static_cast<double>(angle)), 2e-7);
        EXPECT_NEAR(sin[i * 4 + j], factor * std::sin(static_cast<double>(angle)), 2e-7);
      }
    }
    EXPECT_EQ(cos[0], static_cast<float>(factor));
    EXPECT_EQ(sin[0], 0);
  }
}

}  // namespace
}  // namespace mla
