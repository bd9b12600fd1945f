// The weights of one decoder layer, as views. Data lives in the checkpoint's mapping or in buffers
// that ModelWeights owns.
// Called by: model/loader (fills them), layers (reads them). Thread-safety: immutable after load.
#ifndef MLA_LAYERS_WEIGHTS_H_
#define MLA_LAYERS_WEIGHTS_H_

#include <vector>

#include "ops/linear.h"
#include "tensor/weight_view.h"

namespace mla {

/// Attention weights; D = hidden size, other symbols as in attention/geometry.h.
struct MlaWeights {
  Linear q_proj;                     ///< [H(n+r), D], only without q-LoRA
  Linear q_a;                        ///< [Rq, D]
  const float* q_a_norm = nullptr;   ///< [Rq]
  Linear q_b;                        ///< [H(n+r), Rq]
  Linear kv_a;                       ///< [Rk+r, D]
  const float* kv_a_norm = nullptr;  ///< [Rk]
  Linear kv_b;                       ///< [H(n+v), Rk], per head n rows of w_uk, then v rows of w_uv
  Linear o;                          ///< [D, H·v]
};

/// down(silu(gate x) · up x). gate, up [I, D]; down [D, I].
struct MlpWeights {
  WeightView gate;
  WeightView up;
  WeightView down;
};

struct MoeWeights {
  WeightView router;                   ///< [E, D]
  const float* router_bias = nullptr;  ///< [E] fp32 or null
  std::vector<MlpWeights> experts;     ///< [E]
  MlpWeights shared;                   ///< empty views if there is no shared expert
};

struct LayerWeights {
  const float* input_norm = nullptr;           ///< [D]
  const float* post_attention_norm = nullptr;  ///< [D]
  MlaWeights attention;
  bool is_moe = false;
  MlpWeights mlp;  ///< dense layers
  MoeWeights moe;  ///< MoE layers
};

}  // namespace mla

#endif  // MLA_LAYERS_WEIGHTS_H_
