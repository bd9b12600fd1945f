#include "model/weight_names.h"

#include <charconv>
#include <string_view>

#include <fmt/core.h>

namespace mla {
namespace {

using Shape = std::vector<int64_t>;
using C = ModelConfig;

// Where a tensor goes: a matrix used as stored, or a vector converted to fp32.
struct Target {
  WeightView* matrix = nullptr;
  const float** vector = nullptr;
};
Target M(WeightView& view) { return {&view, nullptr}; }
Target V(const float*& vector) { return {nullptr, &vector}; }

template <typename Owner>
struct Row {
  const char* name;
  WeightGroup group;
  Target (*target)(Owner&);
  Shape (*shape)(const C&);
  bool (*when)(const C&) = nullptr;  // null: always
};

bool Direct(const C& c) { return c.attention.q_rank == 0; }
bool QLora(const C& c) { return c.attention.q_rank != 0; }
bool Bias(const C& c) { return c.attention_bias; }
bool QLoraBias(const C& c) { return c.attention_bias && QLora(c); }
bool Untied(const C& c) { return !c.tie_word_embeddings; }
bool Shared(const C& c) { return c.num_shared_experts != 0; }
bool RouterBias(const C& c) { return c.router.has_bias; }

int64_t QRows(const C& c) { return c.attention.heads * c.attention.qk_dim(); }
int64_t SharedWidth(const C& c) { return c.moe_intermediate_size * c.num_shared_experts; }

using W = ModelWeights;
using L = LayerWeights;
using E = MlpWeights;
using G = WeightGroup;

constexpr Row<W> kTop[] = {
    {"model.embed_tokens.weight", G::kEmbedding, [](W& w) { return M(w.embedding); },
     [](const C& c) {
       return Shape{c.vocab_size, c.hidden_size};
     }},
    {"model.norm.weight", G::kNorms, [](W& w) { return V(w.final_norm); },
     [](const C& c) { return Shape{c.hidden_size}; }},
    {"lm_head.weight", G::kLmHead, [](W& w) { return M(w.lm_head); },
     [](const C& c) {
       return Shape{c.vocab_size, c.hidden_size};
     },
     Untied},
};

// Names below are relative to "model.layers.<index>.".
constexpr Row<L> kLayer[] = {
    {"input_layernorm.weight", G::kNorms, [](L& l) { return V(l.input_norm); },
     [](const C& c) { return Shape{c.hidden_size}; }},
    {"post_attention_layernorm.weight", G::kNorms, [](L& l) { return V(l.post_attention_norm); },
     [](const C& c) { return Shape{c.hidden_size}; }},
    {"self_attn.q_proj.weight", G::kAttention, [](L& l) { return M(l.attention.q_proj.weight); },
     [](const C& c) {
       return Shape{QRows(c), c.hidden_size};
     },
     Direct},
    {"self_attn.q_a_proj.weight", G::kAttention, [](L& l) { return M(l.attention.q_a.weight); },
     [](const C& c) {
       return Shape{c.attention.q_rank, c.hidden_size};
     },
     QLora},
    {"self_attn.q_a_proj.bias", G::kAttention, [](L& l) { return V(l.attention.q_a.bias); },
     [](const C& c) { return Shape{c.attention.q_rank}; }, QLoraBias},
    {"self_attn.q_a_layernorm.weight", G::kNorms, [](L& l) { return V(l.attention.q_a_norm); },
     [](const C& c) { return Shape{c.attention.q_rank}; }, QLora},
    {"self_attn.q_b_proj.weight", G::kAttention, [](L& l) { return M(l.attention.q_b.weight); },
     [](const C& c) {
       return Shape{QRows(c), c.attention.q_rank};
     },
     QLora},
    {"self_attn.kv_a_proj_with_mqa.weight", G::kAttention,
     [](L& l) { return M(l.attention.kv_a.weight); },
     [](const C& c) {
       return Shape{c.attention.latent_dim(), c.hidden_size};
     }},
    {"self_attn.kv_a_proj_with_mqa.bias", G::kAttention,
     [](L& l) { return V(l.attention.kv_a.bias); },
     [](const C& c) { return Shape{c.attention.latent_dim()}; }, Bias},
    {"self_attn.kv_a_layernorm.weight", G::kNorms, [](L& l) { return V(l.attention.kv_a_norm); },
     [](const C& c) { return Shape{c.attention.kv_rank}; }},
    {"self_attn.kv_b_proj.weight", G::kAttention, [](L& l) { return M(l.attention.kv_b.weight); },
     [](const C& c) {
       return Shape{c.attention.kv_b_rows(), c.attention.kv_rank};
     }},
    {"self_attn.o_proj.weight", G::kAttention, [](L& l) { return M(l.attention.o.weight); },
     [](const C& c) {
       return Shape{c.hidden_size, c.attention.heads * c.attention.v_dim};
     }},
    {"self_attn.o_proj.bias", G::kAttention, [](L& l) { return V(l.attention.o.bias); },
     [](const C& c) { return Shape{c.hidden_size}; }, Bias},
};

constexpr Row<L> kDenseMlp[] = {
    {"mlp.gate_proj.weight", G::kDenseMlp, [](L& l) { return M(l.mlp.gate); },
     [](const C& c) {
       return Shape{c.intermediate_size, c.hidden_size};
     }},
    {"mlp.up_proj.weight", G::kDenseMlp, [](L& l) { return M(l.mlp.up); },
     [](const C& c) {
       return Shape{c.intermediate_size, c.hidden_size};
     }},
    {"mlp.down_proj.weight", G::kDenseMlp, [](L& l) { return M(l.mlp.down); },
     [](const C& c) {
       return Shape{c.hidden_size, c.intermediate_size};
     }},
};

constexpr Row<L> kMoe[] = {
    {"mlp.gate.weight", G::kRouter, [](L& l) { return M(l.moe.router); },
     [](const C& c) {
       return Shape{c.router.experts, c.hidden_size};
     }},
    {"mlp.gate.e_score_correction_bias", G::kRouter, [](L& l) { return V(l.moe.router_bias); },
     [](const C& c) { return Shape{c.router.experts}; }, RouterBias},
    {"mlp.shared_experts.gate_proj.weight", G::kSharedExperts,
     [](L& l) { return M(l.moe.shared.gate); },
     [](const C& c) {
       return Shape{SharedWidth(c), c.hidden_size};
     },
     Shared},
    {"mlp.shared_experts.up_proj.weight", G::kSharedExperts,
     [](L& l) { return M(l.moe.shared.up); },
     [](const C& c) {
       return Shape{SharedWidth(c), c.hidden_size};
     },
     Shared},
    {"mlp.shared_experts.down_proj.weight", G::kSharedExperts,
     [](L& l) { return M(l.moe.shared.down); },
     [](const C& c) {
       return Shape{c.hidden_size, SharedWidth(c)};
     },
     Shared},
};

// Relative to "model.layers.<index>.mlp.experts.<expert>.".
constexpr Row<E> kExpert[] = {
    {"gate_proj.weight", G::kRoutedExperts, [](E& e) { return M(e.gate); },
     [](const C& c) {
       return Shape{c.moe_intermediate_size, c.hidden_size};
     }},
    {"up_proj.weight", G::kRoutedExperts, [](E& e) { return M(e.up); },
     [](const C& c) {
       return Shape{c.moe_intermediate_size, c.hidden_size};
     }},
    {"down_proj.weight", G::kRoutedExperts, [](E& e) { return M(e.down); },
     [](const C& c) {
       return Shape{c.hidden_size, c.moe_intermediate_size};
     }},
};

template <typename Owner, size_t N>
void Append(const Row<Owner> (&rows)[N], const C& config, const std::string& prefix, Owner& owner,
            std::vector<WeightSlot>& slots) {
  for (const Row<Owner>& row : rows) {
    if (row.when != nullptr && !row.when(config)) continue;
    const Target target = row.target(owner);
    WeightSlot& slot = slots.emplace_back();
    slot.name = prefix + row.name;
    slot.shape = row.shape(config);
    slot.group = row.group;
    slot.matrix = target.matrix;
    slot.vector = target.vector;
  }
}

constexpr char kLayersPrefix[] = "model.layers.";

std::string LayerPrefix(int64_t index) { return fmt::format("{}{}.", kLayersPrefix, index); }

// The same weights as kExpert, as transformers holds them in memory since version 5.
void AppendPacked(const C& c, int64_t index, std::vector<MlpWeights>& experts,
                  std::vector<WeightSlot>& slots) {
  for (const bool up : {true, false}) {
    WeightSlot& slot = slots.emplace_back();
    slot.name = up ? PackedExpertsName(index) : LayerPrefix(index) + "mlp.experts.down_proj";
    slot.shape = up ? Shape{c.router.experts, 2 * c.moe_intermediate_size, c.hidden_size}
                    : Shape{c.router.experts, c.hidden_size, c.moe_intermediate_size};
    slot.group = G::kRoutedExperts;
    slot.packed = &experts;
    slot.packed_up = up;
  }
}

}  // namespace

const char* WeightGroupName(WeightGroup group) noexcept {
  constexpr const char* kNames[kWeightGroups] = {"embedding",      "lm_head", "attention",
                                                 "dense_mlp",      "router",  "routed_experts",
                                                 "shared_experts", "norms"};
  return kNames[static_cast<int>(group)];
}

std::vector<WeightSlot> TopSlots(const ModelConfig& config, ModelWeights& weights) {
  std::vector<WeightSlot> slots;
  Append(kTop, config, "", weights, slots);
  return slots;
}

std::vector<WeightSlot> LayerSlots(const ModelConfig& config, int64_t index, bool packed_experts,
                                   LayerWeights& layer) {
  std::vector<WeightSlot> slots;
  const std::string prefix = LayerPrefix(index);
  Append(kLayer, config, prefix, layer, slots);
  layer.is_moe = config.is_moe[static_cast<size_t>(index)];
  if (!layer.is_moe) {
    Append(kDenseMlp, config, prefix, layer, slots);
    return slots;
  }
  Append(kMoe, config, prefix, layer, slots);
  if (packed_experts) {
    AppendPacked(config, index, layer.moe.experts, slots);
    return slots;
  }
  layer.moe.experts.resize(static_cast<size_t>(config.router.experts));
  for (size_t e = 0; e < layer.moe.experts.size(); ++e) {
    Append(kExpert, config, fmt::format("{}mlp.experts.{}.", prefix, e), layer.moe.experts[e],
           slots);
  }
  return slots;
}

std::string PackedExpertsName(int64_t layer) {
  return LayerPrefix(layer) + "mlp.experts.gate_up_proj";
}

bool IsIgnoredTensor(const ModelConfig& config, const std::string& name) {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  if (name == "lm_head.weight") return config.tie_word_embeddings;
  const std::string_view prefix = kLayersPrefix;
  if (!name.starts_with(prefix)) return false;
  int64_t layer = -1;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, layer);
  return error == std::errc() && rest != end && *rest == '.' && layer >= config.num_layers;
}

}  // namespace mla
