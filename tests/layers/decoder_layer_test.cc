#include "layers/decoder_layer.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "layer_case.h"
#include "support/expect_error.h"

namespace mla {
namespace {

constexpr int64_t kHidden = 32, kWidth = 40;

// One dense layer with two sequences in the batch: rows 0-2 at positions 0-2, rows 3-4 at 5-6.
class DecoderLayerTest : public testing::Test {
 protected:
  DecoderLayerTest()
      : case_(kSmall, kHidden, RopeStyle::kInterleaved, Elem::kF32, 1),
        gate_(StoredMatrix::Normal(case_.random, kWidth, kHidden, Elem::kF32, 0.2)),
        down_(StoredMatrix::Normal(case_.random, kHidden, kWidth, Elem::kF32, 0.2)),
        norm_(kHidden, 1.0f),
        harness_(2, std::max(AnyScratchFloats(kSmall, CacheLayout::kLatent),
                             MlpScratchFloats(RouterConfig()))),
        attention_(kSmall, CacheLayout::kLatent, 5, 2),
        mlp_(router_, kWidth, 0, 5),
        first_(kSmall, 1, CacheLayout::kLatent, Elem::kF32, 10),
        second_(kSmall, 1, CacheLayout::kLatent, Elem::kF32, 10, 5) {
    layer_.input_norm = layer_.post_attention_norm = norm_.data();
    layer_.attention = case_.Weights();
    layer_.mlp = {ViewOf(gate_), ViewOf(gate_), ViewOf(down_)};
    fold_ = BuildFold(kSmall, layer_.attention.kv_b);
    first_.Extend(3);
    second_.Extend(2);
    items_ = {{&first_, 0, 3, 0}, {&second_, 3, 2, 5}};
  }

  std::vector<float> Run(std::vector<float> x) {
    const std::vector<int64_t> positions = {0, 1, 2, 5, 6};
    const auto frequencies = RopeFrequencies(case_.rope, kSmall.rope);
    std::vector<float> cos(positions.size() * frequencies.size()), sin(cos.size());
    RopeRows(case_.rope, frequencies, positions, cos.data(), sin.data());
    std::vector<float> normed(x.size());
    PathStats stats;
    MlaStep step;
    step.geometry = &case_.geometry;
    step.softmax_scale = case_.scale;
    step.cos = cos.data();
    step.sin = sin.data();
    step.items = items_;
    step.rows = 5;
    step.stats = &stats;
    DecoderLayerArgs args;
    args.weights = &layer_;
    args.fold = &fold_;
    args.router = &router_;
    args.layer = 0;
    args.hidden = kHidden;
    args.normed = normed.data();
    DecoderLayer(harness_.context, step, args, attention_, mlp_, x.data());
    return x;
  }

  RouterConfig router_;
  LayerCase case_;
  StoredMatrix gate_, down_;
  std::vector<float> norm_;
  OpHarness harness_;
  MlaBuffers attention_;
  MlpBuffers mlp_;
  KvCache first_, second_;
  LayerWeights layer_;
  LayerFold fold_;
  std::vector<AttentionItem> items_;
};

TEST_F(DecoderLayerTest, AddsBothBlocksToTheResidual) {
  Random random(2);
  const auto x = random.Normals(5 * kHidden);
  const auto got = Run(x);
  EXPECT_TRUE(Finite(got));
  // The first sequence starts at position 0, where the block in double does.
  std::vector<float> normed(3 * kHidden);
  for (int64_t i = 0; i < 3; ++i) {
    reference::RmsNorm(x.data() + i * kHidden, norm_.data(), 1e-6f, normed.data() + i * kHidden,
                       kHidden);
  }
  std::vector<double> want = case_.Want(normed);
  for (size_t i = 0; i < want.size(); ++i) want[i] += x[i];
  std::vector<float> inner(kWidth);
  for (int64_t i = 0; i < 3; ++i) {
    std::vector<float> row(want.begin() + i * kHidden, want.begin() + (i + 1) * kHidden);
    reference::RmsNorm(row.data(), norm_.data(), 1e-6f, row.data(), kHidden);
    for (int64_t j = 0; j < kWidth; ++j) {
      double g = 0;
      for (int64_t k = 0; k < kHidden; ++k) g += gate_.At(j, k) * row[static_cast<size_t>(k)];
      inner[static_cast<size_t>(j)] = static_cast<float>(g / (1 + std::exp(-g)) * g);
    }
    for (int64_t k = 0; k < kHidden; ++k) {
      for (int64_t j = 0; j < kWidth; ++j) {
        want[static_cast<size_t>(i * kHidden + k)] +=
            down_.At(k, j) * inner[static_cast<size_t>(j)];
      }
    }
  }
  EXPECT_LT(RelativeError(std::vector<float>(got.begin(), got.begin() + 3 * kHidden), want), 2e-5);
}

TEST_F(DecoderLayerTest, NaNNamesLayerPartAndPosition) {
  Random random(3);
  const auto x = random.Normals(5 * kHidden);
  const int64_t positions[] = {0, 1, 2, 5, 6};
  for (int64_t row = 0; row < 5; ++row) {
    auto bad = x;
    bad[static_cast<size_t>(row * kHidden + 7)] = kNaN;
    const std::string position = "position " + std::to_string(positions[row]) + ";";
    ExpectError(ErrorCode::kNumeric, {"layer 0", "self_attn", "NaN", position.c_str()},
                [&] { Run(bad); });
  }
}

TEST_F(DecoderLayerTest, DamagedMlpIsNamed) {
  std::vector<float> values = down_.values();
  values[3] = kInfinity;
  const StoredMatrix damaged(values, kHidden, kWidth, Elem::kF32);
  layer_.mlp.down = ViewOf(damaged);
  Random random(4);
  ExpectError(ErrorCode::kNumeric, {"layer 0", "(mlp)", "position 0", "damaged"},
              [&] { Run(random.Normals(5 * kHidden)); });
}

}  // namespace
}  // namespace mla
