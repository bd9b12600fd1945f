// The forward pass of a model over a batch of sequences, with the activations it needs.
// Called by: engine. Thread-safety: one call at a time per object and per context.
#ifndef MLA_MODEL_FORWARD_H_
#define MLA_MODEL_FORWARD_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "layers/decoder_layer.h"
#include "model/config.h"
#include "model/weights.h"

namespace mla {

/// The folds of all layers; layers whose kv_b_proj cannot be folded carry the reason.
std::vector<LayerFold> BuildFolds(const ModelConfig& config, const ModelWeights& weights);

/// Floats of thread scratch that a forward pass over caches of this type needs
/// (ThreadScratch::Reserve).
int64_t ForwardScratchFloats(const ModelConfig& config, CacheLayout layout, Elem type,
                             const LatentUnits& units);

class Forward {
 public:
  /// All activations are allocated here, for up to `max_rows` tokens of `max_sequences` sequences
  /// per step. config, weights and folds must outlive the object.
  Forward(const ModelConfig& config, const ModelWeights& weights, std::span<const LayerFold> folds,
          CacheLayout layout, int64_t max_rows, int64_t max_sequences);

  /// tokens [T], ids in range; item i's rows are tokens[first_row, first_row + rows), and its cache
  /// is already extended over their positions. Leaves the final hidden states for Logits. Throws
  /// kNumeric naming the layer if a NaN or infinity appears; the caller then trims the caches.
  /// `keep_going`, if any, is asked before each layer; when it says no, Run returns false at once,
  /// with nothing to take logits from.
  bool Run(OpContext& context, std::span<const int32_t> tokens,
           std::span<const AttentionItem> items, const AttentionPolicy& policy, PathStats* stats,
           const std::function<bool()>& keep_going = {});

  /// Logits [rows, V] of rows [first, first + rows) of the last Run. Throws kNumeric.
  void Logits(OpContext& context, int64_t first, int64_t rows, float* logits);

  int64_t max_rows() const { return max_rows_; }
  /// Bytes of the activations.
  int64_t bytes() const;

 private:
  const ModelConfig& config_;
  const ModelWeights& weights_;
  std::span<const LayerFold> folds_;
  int64_t max_rows_;
  std::vector<float> inv_freq_;     // [r/2]
  std::vector<int64_t> positions_;  // [T]
  FloatBuffer cos_, sin_;           // [T, r/2]
  FloatBuffer x_, normed_;          // [T, D]
  MlaBuffers attention_;
  MlpBuffers mlp_;
};

}  // namespace mla

#endif  // MLA_MODEL_FORWARD_H_
