// The one table of weights: name in the checkpoint -> field -> expected shape.
// Called by: model/loader. Thread-safety: stateless.
#ifndef MLA_MODEL_WEIGHT_NAMES_H_
#define MLA_MODEL_WEIGHT_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/weights.h"

namespace mla {

/// What `mla inspect` sums weights by.
enum class WeightGroup {
  kEmbedding,
  kLmHead,
  kAttention,
  kDenseMlp,
  kRouter,
  kRoutedExperts,
  kSharedExperts,
  kNorms
};
inline constexpr int kWeightGroups = 8;

const char* WeightGroupName(WeightGroup group) noexcept;

/// One tensor that the model needs and where it goes. Exactly one of the targets is set.
struct WeightSlot {
  std::string name;
  std::vector<int64_t> shape;
  WeightGroup group = WeightGroup::kEmbedding;
  WeightView* matrix = nullptr;    ///< used in its stored type
  const float** vector = nullptr;  ///< converted to fp32
  /// All experts of a layer in one tensor: [E, 2·Im, D] (gate rows, then up rows) if `packed_up`,
  /// else [E, D, Im]. The vector is resized to E when it is bound.
  std::vector<MlpWeights>* packed = nullptr;
  bool packed_up = false;
};

/// The tensors outside of the layers.
std::vector<WeightSlot> TopSlots(const ModelConfig& config, ModelWeights& weights);

/// The tensors of one layer. `packed_experts`: the checkpoint holds the routed experts of this
/// layer as two tensors; otherwise resizes layer.moe.experts to E. Slots point into `layer`.
std::vector<WeightSlot> LayerSlots(const ModelConfig& config, int64_t index, bool packed_experts,
                                   LayerWeights& layer);

/// Name of the packed gate and up projections of a layer, by which that layout is recognised.
std::string PackedExpertsName(int64_t layer);

/// Tensors that are no part of the graph and may be in a file all the same: rotary_emb.inv_freq
/// buffers, layers of index >= num_layers (multi-token prediction), and lm_head.weight if tied.
bool IsIgnoredTensor(const ModelConfig& config, const std::string& name);

}  // namespace mla

#endif  // MLA_MODEL_WEIGHT_NAMES_H_
