// The defaults (bf16 cache) against fp32, and the int8 cache against bf16, on the embedded model's
// perplexity text.
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

// Mean KL divergence of `rows` from `want`.
double MeanKl(const std::vector<std::vector<double>>& want,
              const std::vector<std::vector<double>>& rows) {
  double kl = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < rows[i].size(); ++j)
      kl += std::exp(want[i][j]) * (want[i][j] - rows[i][j]);
  }
  return kl / static_cast<double>(rows.size());
}

TEST(Quality, Int8AgainstBf16) {
  const Golden golden = ReadGolden(kStories + "/golden");
  const Model model = Model::Load(kStories, {.threads = 2});
  for (const Attention a : {Attention::kAbsorbed, Attention::kSplitKv}) {
    const auto bf16 = LogProbabilities(model, golden, {.attention = a});
    // The long prompt in few-row chunks runs the int8 kernel, in long ones the tiled prefill.
    for (const int64_t chunk : {16, 512}) {
      const auto int8 = LogProbabilities(
          model, golden,
          {.attention = a, .cache_type = CacheType::kInt8, .context = 0, .prefill_chunk = chunk});
      const double kl = MeanKl(bf16, int8);
      const double ratio = std::exp(MeanNll(int8, golden) - MeanNll(bf16, golden));
      std::printf("%s int8 cache, chunk %d: KL %.2e from bf16, perplexity x %.5f\n",
                  AttentionName(a), static_cast<int>(chunk), kl, ratio);
      EXPECT_LE(kl, 1e-3) << AttentionName(a) << " chunk " << chunk;
      EXPECT_GT(kl, 0) << "int8 was not used";
      EXPECT_NEAR(ratio, 1, 5e-3) << AttentionName(a);
    }
  }
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
    const double kl = MeanKl(f32, rows);
    const double ratio = std::exp(MeanNll(rows, golden) - nll);
    RecordProperty(std::string("kl_") + AttentionName(a), std::to_string(kl));
    std::printf("%s bf16 cache: KL %.2e, perplexity x %.5f\n", AttentionName(a), kl, ratio);
    EXPECT_LE(kl, 1e-3) << AttentionName(a);
    EXPECT_NEAR(ratio, 1, 5e-3) << AttentionName(a);
  }
}

}  // namespace
}  // namespace mla
