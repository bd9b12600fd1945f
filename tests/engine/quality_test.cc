// The defaults (bf16 cache) against fp32 on the embedded model's perplexity text.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/golden.h"
#include "mla/engine.h"

namespace mla {
namespace {

const std::string kStories = std::string(MLA_MODELS) + "/stories-mla";

// Log-probabilities of every position, one after the other.
std::vector<std::vector<double>> LogProbabilities(const Model& model, const Golden& golden,
                                                  const SessionOptions& options) {
  std::vector<std::vector<double>> rows;
  Session session(model, options);
  session.FeedForLogits(golden.perplexity_ids, [&](int64_t, std::span<const float> logits) {
    double max = logits[0];
    for (const float x : logits) max = std::max<double>(max, x);
    double sum = 0;
    for (const float x : logits) sum += std::exp(x - max);
    std::vector<double> row;
    for (const float x : logits) row.push_back(x - max - std::log(sum));
    rows.push_back(std::move(row));
  });
  return rows;
}

double MeanNll(const std::vector<std::vector<double>>& rows, const Golden& golden) {
  double sum = 0;
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    sum -= rows[i][static_cast<size_t>(golden.perplexity_ids[i + 1])];
  }
  return sum / static_cast<double>(rows.size() - 1);
}

TEST(Quality, DefaultsAgainstFp32) {
  const Golden golden = ReadGolden(kStories + "/golden");
  const Model model = Model::Load(kStories, {.threads = 2});
  const auto f32 = LogProbabilities(
      model, golden, {.attention = Attention::kDecompressed, .cache_type = CacheType::kF32});
  const double nll = MeanNll(f32, golden);
  double want = 0;
  for (size_t i = 0; i < golden.perplexity_nll.size(); ++i) {
    want += golden.perplexity_nll[i] / static_cast<double>(golden.perplexity_nll.size());
    ASSERT_NEAR(-f32[i][static_cast<size_t>(golden.perplexity_ids[i + 1])],
                golden.perplexity_nll[i], 2e-3)
        << i;
  }
  EXPECT_NEAR(nll, want, 1e-5);
  for (const Attention a : {Attention::kDecompressed, Attention::kAbsorbed, Attention::kSplitKv}) {
    const auto rows = LogProbabilities(model, golden, {.attention = a});
    double kl = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < rows[i].size(); ++j) {
        kl += std::exp(f32[i][j]) * (f32[i][j] - rows[i][j]);
      }
    }
    kl /= static_cast<double>(rows.size());
    const double ratio = std::exp(MeanNll(rows, golden) - nll);
    RecordProperty(std::string("kl_") + AttentionName(a), std::to_string(kl));
    std::printf("%s bf16 cache: KL %.2e, perplexity x %.5f\n", AttentionName(a), kl, ratio);
    EXPECT_LE(kl, 1e-3) << AttentionName(a);
    EXPECT_NEAR(ratio, 1, 5e-3) << AttentionName(a);
  }
}

}  // namespace
}  // namespace mla
