#include "layers/moe_router.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/random.h"

namespace mla {
namespace {

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed Route(const RouterConfig& config, const std::vector<float>& logits,
             const std::vector<float>& bias = {}) {
  Routed r{std::vector<int32_t>(static_cast<size_t>(config.experts_per_token), -1),
           std::vector<float>(static_cast<size_t>(config.experts_per_token), kNaN)};
  std::vector<float> scratch(static_cast<size_t>(3 * config.experts), kNaN);
  RouteToken(config, logits.data(), bias.empty() ? nullptr : bias.data(), r.ids.data(),
             r.weights.data(), scratch.data());
  return r;
}

// Indices of the `count` largest, the lower index first among equals.
std::vector<size_t> Top(const std::vector<double>& x, size_t count) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  order.resize(count);
  return order;
}

struct Plain {
  std::vector<size_t> ids;  // ascending
  std::vector<double> weights;
};

// The routers of DeepSeek-V2 and -V3 as their papers state them, in double.
Plain PlainRoute(const RouterConfig& c, const std::vector<float>& logits,
                 const std::vector<float>& bias) {
  std::vector<double> score;
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  for (const float x : logits) {
    score.push_back(c.score == RouterScore::kSoftmax ? std::exp(static_cast<double>(x)) / sum
                                                     : 1 / (1 + std::exp(-static_cast<double>(x))));
  }
  std::vector<double> choice = score;
  for (size_t e = 0; e < bias.size(); ++e) choice[e] += bias[e];
  if (c.groups > 1) {
    const size_t size = logits.size() / static_cast<size_t>(c.groups);
    std::vector<double> group;
    for (size_t g = 0; g < static_cast<size_t>(c.groups); ++g) {
      std::vector<double> members(choice.begin() + static_cast<int64_t>(g * size),
                                  choice.begin() + static_cast<int64_t>((g + 1) * size));
      std::sort(members.rbegin(), members.rend());
      group.push_back(c.group_score == GroupScore::kMax ? members[0] : members[0] + members[1]);
    }
    const auto kept = Top(group, static_cast<size_t>(c.groups_kept));
    for (size_t e = 0; e < choice.size(); ++e) {
      if (std::find(kept.begin(), kept.end(), e / size) == kept.end()) {
        choice[e] = c.masked == MaskedGroups::kZero ? 0 : -1e300;
      }
    }
  }
  Plain p;
  p.ids = Top(choice, static_cast<size_t>(c.experts_per_token));
  std::sort(p.ids.begin(), p.ids.end());
  double total = 0;
  for (const size_t id : p.ids) total += score[id];
  for (const size_t id : p.ids) {
    p.weights.push_back(score[id] / (c.normalize ? total + 1e-20 : 1) * c.scaling);
  }
  return p;
}

void ExpectPlain(const RouterConfig& config, double bias_deviation, uint64_t seed) {
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    const auto logits = random.Normals(config.experts, 2);
    const auto bias =
        bias_deviation > 0 ? random.Normals(config.experts, bias_deviation) : std::vector<float>();
    const Routed got = Route(config, logits, bias);
    const Plain want = PlainRoute(config, logits, bias);
    ASSERT_EQ(std::vector<size_t>(got.ids.begin(), got.ids.end()), want.ids) << "round " << round;
    ASSERT_LT(RelativeError(got.weights, want.weights), 2e-6) << "round " << round;
  }
}

RouterConfig RouterA(int64_t experts, int64_t k, int64_t groups = 1, int64_t kept = 1) {
  RouterConfig c;
  c.experts = experts;
  c.experts_per_token = k;
  c.groups = groups;
  c.groups_kept = kept;
  return c;
}

RouterConfig RouterB(int64_t experts, int64_t k, int64_t groups = 1, int64_t kept = 1) {
  RouterConfig c = RouterA(experts, k, groups, kept);
  c.score = RouterScore::kSigmoid;
  c.group_score = GroupScore::kTop2Sum;
  c.masked = MaskedGroups::kMinusInfinity;
  c.has_bias = true;
  c.normalize = true;
  c.scaling = 2.5;
  return c;
}

TEST(RouteToken, RouterAGreedy) {
  for (const auto& [experts, k] : {std::pair<int64_t, int64_t>{64, 6}, {4, 1}, {5, 5}, {160, 6}}) {
    RouterConfig c = RouterA(experts, k);
    ExpectPlain(c, 0, 1);
    c.scaling = 16;
    ExpectPlain(c, 0, 2);
    c.normalize = true;
    ExpectPlain(c, 0, 3);
  }
}

TEST(RouteToken, RouterAGroupLimited) {
  RouterConfig c = RouterA(160, 6, 8, 3);
  c.scaling = 16;
  ExpectPlain(c, 0, 4);
  ExpectPlain(RouterA(12, 3, 4, 2), 0, 5);
  ExpectPlain(RouterA(12, 4, 4, 4), 0, 6);  // all kept
}

TEST(RouteToken, RouterB) {
  for (const double bias : {0.0, 0.05, 2.0}) {
    ExpectPlain(RouterB(256, 8, 8, 4), bias, 7);
    ExpectPlain(RouterB(64, 6), bias, 8);
    ExpectPlain(RouterB(16, 4, 4, 2), bias, 9);
    RouterConfig zero = RouterB(16, 4, 4, 2);
    zero.masked = MaskedGroups::kZero;
    ExpectPlain(zero, bias, 10);
    RouterConfig max = RouterB(16, 4, 4, 2);
    max.group_score = GroupScore::kMax;
    ExpectPlain(max, bias, 11);
  }
}

// With negative biases a masked expert beats a kept one if its mask is 0, and never if it is -inf.
TEST(RouteToken, MaskOfZeroOrMinusInfinity) {
  RouterConfig c = RouterB(4, 2, 2, 1);
  const std::vector<float> logits = {0, 0, -1, -1};
  const std::vector<float> bias = {-0.9f, -0.9f, -0.9f, -0.9f};
  EXPECT_EQ(Route(c, logits, bias).ids, (std::vector<int32_t>{0, 1}));
  c.masked = MaskedGroups::kZero;
  EXPECT_EQ(Route(c, logits, bias).ids, (std::vector<int32_t>{2, 3}));
}

TEST(RouteToken, TheBiasSelectsOnly) {
  const RouterConfig c = RouterB(3, 1);
  const Routed r = Route(c, {2, 0, -2}, {0, 0, 5});
  EXPECT_EQ(r.ids[0], 2);
  EXPECT_NEAR(r.weights[0], 2.5, 1e-6);  // normalised over itself
  RouterConfig plain = c;
  plain.normalize = false;
  EXPECT_NEAR(Route(plain, {2, 0, -2}, {0, 0, 5}).weights[0], 2.5 / (1 + std::exp(2.0)), 1e-6);
}

TEST(RouteToken, TiesGoToTheLowerId) {
  for (RouterConfig c :
       {RouterA(12, 3), RouterA(12, 3, 4, 2), RouterB(12, 3), RouterB(12, 3, 4, 2)}) {
    EXPECT_EQ(Route(c, std::vector<float>(12, 0.5f)).ids, (std::vector<int32_t>{0, 1, 2}));
  }
  EXPECT_EQ(Route(RouterA(6, 2), {1, 3, 2, 3, 3, 0}).ids, (std::vector<int32_t>{1, 3}));
  // Groups 1 and 2 tie for the second place.
  EXPECT_EQ(Route(RouterA(6, 4, 3, 2), {5, 5, 1, 1, 1, 1}).ids, (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(RouteToken, BrokenLogitsNeitherCrashNorHide) {
  for (RouterConfig c : {RouterA(8, 3), RouterA(8, 3, 4, 2), RouterB(8, 3), RouterB(8, 3, 4, 2)}) {
    for (const float bad : {kNaN, kInfinity, -kInfinity}) {
      for (int count : {1, 4, 8}) {
        std::vector<float> logits(8, 0.25f);
        std::fill_n(logits.begin(), count, bad);
        const Routed r = Route(c, logits, std::vector<float>(8, 0.1f));
        const std::set<int32_t> distinct(r.ids.begin(), r.ids.end());
        EXPECT_EQ(distinct.size(), 3u) << "bad " << bad << " count " << count;
        EXPECT_GE(*distinct.begin(), 0);
        EXPECT_LT(*distinct.rbegin(), 8);
        if (count == 8 && std::isnan(bad)) {
          EXPECT_TRUE(HasNaN(r.weights)) << "the NaN must reach the output";
        }
      }
    }
  }
}

TEST(RouteToken, AllScoresZeroNormaliseToZero) {
  const Routed r = Route(RouterB(4, 2), {-200, -200, -200, -200});
  EXPECT_TRUE(Finite(r.weights));
}

}  // namespace
}  // namespace mla
