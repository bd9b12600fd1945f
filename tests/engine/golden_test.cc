// Every family against Hugging Face's fp32 logits and greedy ids, on every attention setting, one
// shot, in chunks and token by token.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/golden.h"
#include "mla/engine.h"
#include "support/slow_isa.h"

namespace mla {
namespace {

constexpr Attention kSettings[] = {Attention::kDecompressed, Attention::kAbsorbed,
                                   Attention::kSplitKv, Attention::kAuto};
constexpr double kTolerance = 1e-3;  // of the logits' standard deviation
// Where the reference's best two logits are closer than this, its choice is rounding noise.
constexpr double kSureGap = 1e-3;

struct Fixture {
  std::string name;
  std::string model;
  std::string golden;
};

std::vector<Fixture> Fixtures() {
  const std::string models = MLA_MODELS;
  const std::string data = MLA_TEST_DATA;
  std::vector<Fixture> fixtures = {
      {"stories_mla", models + "/stories-mla", models + "/stories-mla/golden"}};
  for (const char* name : {"deepseek_v2_lite", "deepseek_v2", "deepseek_v3", "deepseek_v3_bias",
                           "moonlight", "kimi_k2"}) {
    fixtures.push_back({name, data + "/goldens/" + name, data + "/goldens/" + name});
  }
  return fixtures;
}

class GoldenTest : public ::testing::TestWithParam<Fixture> {
 protected:
  GoldenTest() : golden_(ReadGolden(GetParam().golden)) {
    options_.threads = 2;
    // isa_main.cc forced the ISA already; the variable keeps Load from undoing it.
    const char* isa = std::getenv("MLA_ISA");
    forced_isa_ = isa != nullptr;
    if (forced_isa_) options_.isa = isa;
  }

  Golden golden_;
  LoadOptions options_;
  bool forced_isa_ = false;
};

TEST_P(GoldenTest, Logits) {
  const Model model = Model::Load(GetParam().model, options_);
  for (const Attention attention : kSettings) {
    for (const int64_t chunk : {512, 64, 7, 1}) {
      for (const GoldenPrompt& prompt : golden_.prompts) {
        // Small chunks of the long prompts take their time and show nothing new; the longest one,
        // with its boundary between chunks of 512, once per machine.
        const bool once = !forced_isa_ && !SlowIsa();
        const size_t most = chunk < 64 ? 100 : chunk < 512 || !once ? 400 : 4000;
        if (prompt.ids.size() > most) continue;
        Session session(model, {.attention = attention,
                                .cache_type = CacheType::kF32,
                                .context = 0,
                                .prefill_chunk = chunk});
        double worst = 0;
        session.FeedForLogits(prompt.ids, [&](int64_t row, std::span<const float> logits) {
          worst = std::max(worst, prompt.Error(row, logits.data()));
        });
        EXPECT_LE(worst, kTolerance) << AttentionName(attention) << " chunk " << chunk << ", "
                                     << prompt.ids.size() << " tokens";
      }
    }
  }
}

TEST_P(GoldenTest, GreedyIds) {
  const Model model = Model::Load(GetParam().model, options_);
  for (const Attention attention : kSettings) {
    for (const GoldenPrompt& prompt : golden_.prompts) {
      if (prompt.ids.size() > 400) continue;
      Session session(model, {.attention = attention, .cache_type = CacheType::kF32});
      session.Feed(prompt.ids);
      for (size_t i = 0; i < prompt.greedy.size() && prompt.top2_gap[i] >= kSureGap; ++i) {
        const int32_t token = session.Sample({});
        ASSERT_EQ(token, prompt.greedy[i]) << AttentionName(attention) << " step " << i;
        session.Feed(std::span(&token, 1));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenTest, ::testing::ValuesIn(Fixtures()),
                         [](const auto& fixture) { return fixture.param.name; });

}  // namespace
}  // namespace mla
