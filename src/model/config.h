// What the forward pass needs to know of a model: explicit enums, no family names.
// Called by: config readers (fill it), loader, forward, engine (inspect). Thread-safety: a value.
#ifndef MLA_MODEL_CONFIG_H_
#define MLA_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/geometry.h"
#include "layers/moe_router.h"
#include "ops/rope_table.h"

namespace mla {

/// One model of the DeepSeek-V2/V3 graph. A family is a reader that fills this struct
/// (model/config_reader.h); nothing behind it looks at `family`.
struct ModelConfig {
  std::string family;  ///< model_type as the file spells it; for messages only

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;  ///< D
  int64_t num_layers = 0;
  MlaGeometry attention;        ///< H, n, r, v, Rk, Rq
  bool attention_bias = false;  ///< biases on q_a, kv_a and o
  RopeConfig rope;
  double softmax_scale = 0;  ///< (n + r)^-1/2 x mscale^2

  int64_t intermediate_size = 0;      ///< width of a dense layer's MLP
  int64_t moe_intermediate_size = 0;  ///< width of one routed expert
  int64_t num_shared_experts = 0;     ///< one MLP of width moe_intermediate_size x this
  RouterConfig router;                ///< experts == 0: no MoE layers
  std::vector<bool> is_moe;           ///< [num_layers]

  double rms_norm_eps = 1e-6;
  double lora_norm_eps = 1e-6;  ///< q_a_layernorm and kv_a_layernorm: 1e-6 in every family
  bool tie_word_embeddings = false;
  int64_t max_positions = 0;

  std::optional<int32_t> bos_id;
  std::vector<int32_t> eos_ids;  ///< union of config.json and generation_config.json, sorted
};

/// generation_config.json, as far as sampling is concerned. Absent file: greedy.
struct GenerationDefaults {
  double temperature = 0;  ///< 0 unless do_sample is true
  int64_t top_k = 0;       ///< 0: off
  double top_p = 1;
  double min_p = 0;
  double repeat_penalty = 1;
};

}  // namespace mla

#endif  // MLA_MODEL_CONFIG_H_
