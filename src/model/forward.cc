#include "model/forward.h"

#include <algorithm>

#include "base/check.h"
#include "ops/rows.h"

namespace mla {
namespace {

int64_t WidestMlp(const ModelConfig& config) {
  const bool dense =
      std::find(config.is_moe.begin(), config.is_moe.end(), false) != config.is_moe.end();
  const int64_t shared =
      config.router.experts > 0 ? config.num_shared_experts * config.moe_intermediate_size : 0;
  return std::max(dense ? config.intermediate_size : 0, shared);
}

void CheckFinite(OpContext& context, const float* x, int64_t rows, int64_t n, const char* tensor) {
  if (FirstNonFiniteRow(context, x, rows, n) < 0) return;
  Fail(ErrorCode::kNumeric,
       "{}: NaN or infinity in the result; expected finite values. The tensor is probably damaged: "
       "compare the file's checksum with its source",
       tensor);
}

}  // namespace

std::vector<LayerFold> BuildFolds(const ModelConfig& config, const ModelWeights& weights) {
  std::vector<LayerFold> folds;
  folds.reserve(weights.layers.size());
  for (const LayerWeights& layer : weights.layers) {
    folds.push_back(BuildFold(config.attention, layer.attention.kv_b));
  }
  return folds;
}

int64_t ForwardScratchFloats(const ModelConfig& config, CacheLayout layout, Elem type,
                             const LatentUnits& units) {
  const int64_t heads_width = config.attention.heads * config.attention.v_dim;
  return std::max({AttentionScratchFloats(config.attention, layout, type, units),
                   MlpScratchFloats(config.router),
                   MatmulScratchFloats(std::max(config.hidden_size, heads_width))});
}

Forward::Forward(const ModelConfig& config, const ModelWeights& weights,
                 std::span<const LayerFold> folds, CacheLayout layout, int64_t max_rows,
                 int64_t max_sequences)
    : config_(config),
      weights_(weights),
      folds_(folds),
      max_rows_(max_rows),
      inv_freq_(RopeFrequencies(config.rope, config.attention.rope)),
      positions_(static_cast<size_t>(max_rows)),
      cos_(max_rows * config.attention.rope / 2),
      sin_(max_rows * config.attention.rope / 2),
      x_(max_rows * config.hidden_size),
      normed_(max_rows * config.hidden_size),
      attention_(config.attention, layout, max_rows, max_sequences),
      mlp_(config.router, WidestMlp(config), config.moe_intermediate_size, max_rows) {}

int64_t Forward::bytes() const {
  return 4 * (cos_.size() + sin_.size() + x_.size() + normed_.size()) +
         8 * static_cast<int64_t>(positions_.size()) + attention_.bytes() + mlp_.bytes();
}

bool Forward::Run(OpContext& context, std::span<const int32_t> tokens,
                  std::span<const AttentionItem> items, const AttentionPolicy& policy,
                  PathStats* stats, const std::function<bool()>& keep_going) {
  const int64_t rows = static_cast<int64_t>(tokens.size());
  Require(rows > 0 && rows <= max_rows_ && !items.empty(), "Forward::Run: number of rows");
  for (const AttentionItem& item : items) {
    for (int64_t i = 0; i < item.rows; ++i) {
      positions_[static_cast<size_t>(item.first_row + i)] = item.position + i;
    }
  }
  RopeRows(config_.rope, inv_freq_, std::span(positions_).first(tokens.size()), cos_.data(),
           sin_.data());
  GatherRows(context, weights_.embedding, tokens, x_.data());
  CheckFinite(context, x_.data(), rows, config_.hidden_size, "model.embed_tokens.weight");

  MlaStep step;
  step.geometry = &config_.attention;
  step.rope_style = config_.rope.style;
  step.softmax_scale = config_.softmax_scale;
  step.lora_norm_eps = config_.lora_norm_eps;
  step.cos = cos_.data();
  step.sin = sin_.data();
  step.items = items;
  step.rows = rows;
  step.policy = policy;
  step.stats = stats;
  DecoderLayerArgs args;
  args.router = &config_.router;
  args.norm_eps = config_.rms_norm_eps;
  args.hidden = config_.hidden_size;
  args.normed = normed_.data();
  for (size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    if (keep_going && !keep_going()) return false;
    args.weights = &weights_.layers[layer];
    args.fold = &folds_[layer];
    args.layer = static_cast<int64_t>(layer);
    DecoderLayer(context, step, args, attention_, mlp_, x_.data());
  }
  return true;
}

void Forward::Logits(OpContext& context, int64_t first, int64_t rows, float* logits) {
  Require(first >= 0 && rows > 0 && first + rows <= max_rows_, "Forward::Logits: rows");
  const int64_t hidden = config_.hidden_size;
  RmsNormRows(context, x_.data() + first * hidden, hidden, weights_.final_norm,
              config_.rms_norm_eps, normed_.data(), hidden, rows, hidden);
  CheckFinite(context, normed_.data(), rows, hidden, "model.norm.weight");
  const Linear head{weights_.lm_head, nullptr};
  const LinearOutput outputs[] = {{&head, logits, config_.vocab_size}};
  ApplyLinear(context, normed_.data(), hidden, rows, outputs);
  CheckFinite(context, logits, rows, config_.vocab_size, "lm_head.weight");
}

}  // namespace mla
