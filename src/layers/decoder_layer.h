// One decoder layer: x += attention(norm(x)); x += mlp(norm(x)).
// Called by: model/forward. Thread-safety: one call per context.
#ifndef MLA_LAYERS_DECODER_LAYER_H_
#define MLA_LAYERS_DECODER_LAYER_H_

#include "layers/mla_attention.h"
#include "layers/mlp.h"

namespace mla {

struct DecoderLayerArgs {
  const LayerWeights* weights = nullptr;
  const LayerFold* fold = nullptr;
  const RouterConfig* router = nullptr;
  double norm_eps = 1e-6;
  int64_t layer = 0;
  int64_t hidden = 0;
  float* normed = nullptr;  ///< [T, D] work space
};

/// x [T, D] in place. Throws kNumeric naming the layer, the part and the position if a NaN or
/// infinity appears.
void DecoderLayer(OpContext& context, const MlaStep& step, const DecoderLayerArgs& args,
                  MlaBuffers& attention, MlpBuffers& mlp, float* x);

}  // namespace mla

#endif  // MLA_LAYERS_DECODER_LAYER_H_
