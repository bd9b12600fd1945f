// What a 16-bit and an int8 latent cache cost every family whose int8 cache is allowed: the table
// of docs/kernels/int8_latent.md. The goldens are peaky on purpose (one flipped routing choice
// moves every logit), so int8 is held to what bf16 does beside it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "engine/golden.h"
#include "mla/engine.h"

namespace mla {
namespace {

struct Difference {
  double mean = 0;   // of |logit - reference|, in standard deviations of the reference
  double agree = 0;  // share of rows whose largest logit is the reference's
  int64_t rows = 0;
};

int64_t ArgMax(const float* logits, int64_t count) {
  return std::max_element(logits, logits + count) - logits;
}

// Reference logits are those of a prompt's last rows. Chunks of 16 rows, so that the latent kernels
// do the work.
Difference Compare(const Model& model, const Golden& golden, CacheType type) {
  Difference d;
  double sum = 0;
  int64_t elements = 0;
  for (const GoldenPrompt& prompt : golden.prompts) {
    if (prompt.ids.size() > 400) continue;
    const int64_t first = static_cast<int64_t>(prompt.ids.size()) - prompt.rows;
    const double sigma = prompt.Sigma();
    Session session(
        model,
        {.attention = Attention::kAbsorbed, .cache_type = type, .context = 0, .prefill_chunk = 16});
    session.FeedForLogits(prompt.ids, [&](int64_t row, std::span<const float> logits) {
      if (row < first) return;
      const float* want = prompt.logits.data() + (row - first) * prompt.vocab;
      for (int64_t i = 0; i < prompt.vocab; ++i) {
        sum += std::fabs(logits[static_cast<size_t>(i)] - want[i]) / sigma;
      }
      elements += prompt.vocab;
      d.agree += ArgMax(logits.data(), prompt.vocab) == ArgMax(want, prompt.vocab) ? 1 : 0;
      ++d.rows;
    });
  }
  d.mean = sum / static_cast<double>(elements);
  d.agree /= static_cast<double>(d.rows);
  return d;
}

class CacheTypes : public ::testing::TestWithParam<const char*> {};

TEST_P(CacheTypes, Int8IsNearWhatBf16Gives) {
  const std::string directory = std::string(MLA_TEST_DATA) + "/goldens/" + GetParam();
  const Model model = Model::Load(directory, {.threads = 2});
  const Golden golden = ReadGolden(directory);
  const Difference f16 = Compare(model, golden, CacheType::kF16);
  const Difference bf16 = Compare(model, golden, CacheType::kBf16);
  const Difference int8 = Compare(model, golden, CacheType::kInt8);
  std::printf("| `%s` | %d | %.5f, %.1f %% | %.5f, %.1f %% | %.5f, %.1f %% |\n", GetParam(),
              static_cast<int>(int8.rows), f16.mean, 100 * f16.agree, bf16.mean, 100 * bf16.agree,
              int8.mean, 100 * int8.agree);
  EXPECT_GT(int8.mean, f16.mean) << "int8 was not used";
  // Roundings of normal values: int8's is uniform in steps of the row's largest element / 127,
  // about 3 sigma / 127, so its deviation is 3 / (127 sqrt(12)) = 0.0068 sigma; bf16's is about
  // 2^-9 / sqrt(3) = 0.0011 of each. Six times, and room for a reference that amplifies.
  EXPECT_LT(int8.mean, 8 * bf16.mean + 1e-3);
  EXPECT_GT(int8.agree, bf16.agree - 0.1);
}

INSTANTIATE_TEST_SUITE_P(Families, CacheTypes,
                         ::testing::Values("deepseek_v2_lite", "deepseek_v2", "deepseek_v3",
                                           "deepseek_v3_bias", "moonlight", "kimi_k2"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace mla
