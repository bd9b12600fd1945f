// Whole models of random shapes: every attention path gives the same logits, and the decompressed
// one is untouched by the existence of folds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/forward.h"

namespace mla {
namespace {

// A model of random fp32 weights that owns them.
struct RandomModel {
  explicit RandomModel(uint32_t seed) : random(seed) {
    const auto pick = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    MlaGeometry& g = config.attention;
    g.heads = pick(1, 9);
    g.nope = pick(1, 40);
    g.rope = 2 * pick(1, 12);
    g.v_dim = pick(1, 40);
    g.kv_rank = pick(1, 70);
    g.q_rank = pick(0, 1) * pick(1, 50);
    config.vocab_size = pick(5, 90);
    config.hidden_size = pick(3, 70);
    config.num_layers = pick(1, 3);
    config.intermediate_size = pick(1, 80);
    config.moe_intermediate_size = pick(1, 40);
    config.num_shared_experts = pick(0, 2);
    config.router.groups = pick(1, 3);
    config.router.experts = config.router.groups * pick(2, 5);
    config.router.groups_kept = pick(1, config.router.groups);
    config.router.experts_per_token =
        pick(1, config.router.groups_kept * (config.router.experts / config.router.groups));
    config.router.score = pick(0, 1) == 0 ? RouterScore::kSoftmax : RouterScore::kSigmoid;
    config.router.normalize = pick(0, 1) == 1;
    config.rope.style = pick(0, 1) == 0 ? RopeStyle::kInterleaved : RopeStyle::kHalfSplit;
    config.softmax_scale = 1 / std::sqrt(static_cast<double>(g.qk_dim()));
    config.max_positions = 4096;
    for (int64_t i = 0; i < config.num_layers; ++i) config.is_moe.push_back(pick(0, 1) == 1);
    g.Validate();
    Fill();
  }

  WeightView Matrix(int64_t rows, int64_t cols) {
    buffers.emplace_back(rows * cols);
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(cols)));
    for (int64_t i = 0; i < rows * cols; ++i) buffers.back()[i] = normal(random);
    return {buffers.back().data(), rows, cols, cols, DType::kF32};
  }
  const float* Norm(int64_t n) {
    buffers.emplace_back(n);
    std::uniform_real_distribution<float> around(0.5f, 1.5f);
    for (int64_t i = 0; i < n; ++i) buffers.back()[i] = around(random);
    return buffers.back().data();
  }
  MlpWeights Mlp(int64_t width) {
    const int64_t d = config.hidden_size;
    if (width == 0) return {};
    return {Matrix(width, d), Matrix(width, d), Matrix(d, width)};
  }

  void Fill() {
    const MlaGeometry& g = config.attention;
    const int64_t d = config.hidden_size;
    weights.embedding = Matrix(config.vocab_size, d);
    weights.lm_head = Matrix(config.vocab_size, d);
    weights.final_norm = Norm(d);
    for (int64_t i = 0; i < config.num_layers; ++i) {
      LayerWeights layer;
      layer.input_norm = Norm(d);
      layer.post_attention_norm = Norm(d);
      MlaWeights& a = layer.attention;
      const int64_t q_rows = g.heads * g.qk_dim();
      if (g.q_rank == 0) {
        a.q_proj.weight = Matrix(q_rows, d);
      } else {
        a.q_a.weight = Matrix(g.q_rank, d);
        a.q_a_norm = Norm(g.q_rank);
        a.q_b.weight = Matrix(q_rows, g.q_rank);
      }
      a.kv_a.weight = Matrix(g.latent_dim(), d);
      a.kv_a_norm = Norm(g.kv_rank);
      a.kv_b.weight = Matrix(g.kv_b_rows(), g.kv_rank);
      a.o.weight = Matrix(d, g.heads * g.v_dim);
      layer.is_moe = config.is_moe[static_cast<size_t>(i)];
      if (layer.is_moe) {
        layer.moe.router = Matrix(config.router.experts, d);
        for (int64_t e = 0; e < config.router.experts; ++e) {
          layer.moe.experts.push_back(Mlp(config.moe_intermediate_size));
        }
        layer.moe.shared = Mlp(config.num_shared_experts * config.moe_intermediate_size);
      } else {
        layer.mlp = Mlp(config.intermediate_size);
      }
      weights.layers.push_back(std::move(layer));
    }
  }

  std::mt19937 random;
  ModelConfig config;
  ModelWeights weights;
  std::vector<FloatBuffer> buffers;
};

// Logits of all positions, fed in chunks.
std::vector<float> AllLogits(const RandomModel& model, const std::vector<LayerFold>& folds,
                             CacheLayout layout, DecodeMode mode, int64_t chunk, int threads,
                             const std::vector<int32_t>& ids) {
  ThreadPool pool(threads);
  ThreadScratch scratch(threads);
  scratch.Reserve(ForwardScratchFloats(model.config, layout, Elem::kF32, {}));
  OpContext context{pool, FastKernels(), scratch};
  const int64_t total = static_cast<int64_t>(ids.size());
  KvCache cache(model.config.attention, model.config.num_layers, layout, Elem::kF32, total);
  Forward forward(model.config, model.weights, folds, layout, chunk, 1);
  PathStats stats;
  std::vector<float> logits(static_cast<size_t>(total * model.config.vocab_size));
  for (int64_t done = 0; done < total; done += chunk) {
    const int64_t rows = std::min(chunk, total - done);
    const AttentionItem item{&cache, 0, rows, done};
    cache.Extend(rows);
    forward.Run(context,
                std::span(ids).subspan(static_cast<size_t>(done), static_cast<size_t>(rows)),
                std::span(&item, 1), mode, &stats);
    forward.Logits(context, 0, rows, logits.data() + done * model.config.vocab_size);
  }
  return logits;
}

double Worst(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double e = std::fabs(static_cast<double>(a[i]) - b[i]);
    worst = e <= worst ? worst : e;  // NaN is the worst
  }
  return worst;
}

TEST(Forward, RandomShapesAgreeOnEveryPath) {
#if defined(__SANITIZE_THREAD__)
  constexpr uint32_t kSeeds = 6;  // each takes seconds there
#else
  constexpr uint32_t kSeeds = 40;
#endif
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const RandomModel model(seed);
    const std::vector<LayerFold> folds = BuildFolds(model.config, model.weights);
    std::vector<int32_t> ids;
    for (int i = 0; i < 150; ++i) {
      ids.push_back(static_cast<int32_t>((i * 31 + seed) % model.config.vocab_size));
    }
    const auto want =
        AllLogits(model, folds, CacheLayout::kDecompressed, DecodeMode::kComposed, 150, 1, ids);
    const auto run = [&](CacheLayout layout, DecodeMode mode, int64_t chunk, int threads) {
      return AllLogits(model, folds, layout, mode, chunk, threads, ids);
    };
    // A router near a tie may flip on rounding noise; these seeds have none.
    EXPECT_LE(Worst(run(CacheLayout::kDecompressed, DecodeMode::kComposed, 7, 2), want), 2e-4);
    EXPECT_LE(Worst(run(CacheLayout::kLatent, DecodeMode::kComposed, 150, 2), want), 2e-4);
    EXPECT_LE(Worst(run(CacheLayout::kLatent, DecodeMode::kComposed, 1, 2), want), 2e-4);
    EXPECT_LE(Worst(run(CacheLayout::kLatent, DecodeMode::kSplitKv, 1, 3), want), 2e-4);
    EXPECT_LE(Worst(run(CacheLayout::kLatent, DecodeMode::kAuto, 64, 2), want), 2e-4);
  }
}

TEST(Forward, DecompressedIsBitIdenticalWithoutFolds) {
  const RandomModel model(7);
  const std::vector<LayerFold> folds = BuildFolds(model.config, model.weights);
  const std::vector<LayerFold> none(model.weights.layers.size());
  const std::vector<int32_t> ids(40, 3);
  EXPECT_EQ(AllLogits(model, folds, CacheLayout::kDecompressed, DecodeMode::kComposed, 8, 2, ids),
            AllLogits(model, none, CacheLayout::kDecompressed, DecodeMode::kComposed, 8, 2, ids));
}

}  // namespace
}  // namespace mla
