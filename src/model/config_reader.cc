#include "model/config_reader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/check.h"
#include "io/json_file.h"
#include "model/rope_reader.h"

namespace mla {
namespace {

// Limits far above any model; they keep products in 63 bits and allocations sane.
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxVocabulary = int64_t{1} << 28;
constexpr int64_t kMaxLayers = int64_t{1} << 14;
constexpr int64_t kMaxExperts = int64_t{1} << 16;
constexpr int64_t kMaxPositions = int64_t{1} << 40;
constexpr int64_t kMaxTokenId = std::numeric_limits<int32_t>::max();

// What the reference's configuration class takes for keys that a file leaves out. They matter:
// re-saving drops keys that equal the default.
struct Defaults {
  int64_t vocab_size;
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t moe_intermediate_size;
  int64_t layers;
  int64_t heads;
  int64_t shared_experts;
  int64_t routed_experts;
  int64_t first_dense;
  double routed_scaling;
  int64_t max_positions;
  int64_t bos_id;
  int64_t eos_id;
};

constexpr Defaults kV2Defaults = {32000, 4096, 11008, 1407, 32, 32, 2, 64, 0, 1.0, 2048, 1, 2};
constexpr Defaults kV3Defaults = {129280, 7168, 18432, 2048, 61, 128, 1, 256, 3, 2.5, 4096, 0, 1};

void ReadAttention(const JsonObject& json, const Defaults& defaults, ModelConfig& c) {
  constexpr int64_t kMost = int64_t{1} << 20;
  MlaGeometry& g = c.attention;
  g.heads = json.Int("num_attention_heads", 1, kMost, defaults.heads);
  g.nope = json.Int("qk_nope_head_dim", 1, kMost, 128);
  g.rope = json.Int("qk_rope_head_dim", 1, kMost, 64);
  g.v_dim = json.Int("v_head_dim", 1, kMost, 128);
  g.kv_rank = json.Int("kv_lora_rank", 1, kMost, 512);
  // Explicit null: no q-LoRA. Absent is not null.
  g.q_rank = json.IsNull("q_lora_rank") ? 0 : json.Int("q_lora_rank", 1, kMost, 1536);
  if (g.rope % 2 != 0) json.Reject("qk_rope_head_dim", "an even number: pairs are rotated");
  try {
    g.Validate();
  } catch (const Error& error) {
    Fail(error.code(), "{}: {}", json.label(), error.what());
  }
  c.attention_bias = json.Bool("attention_bias", false);
}

void ReadRopeAndScale(const JsonObject& json, ModelConfig& c) {
  const RopeSettings rope = ReadRope(json, c.max_positions);
  c.rope = rope.config;
  c.softmax_scale = rope.mscale_squared / std::sqrt(static_cast<double>(c.attention.qk_dim()));
}

// Sizes and layer kinds that all families spell alike.
void ReadCommon(const JsonObject& json, const Defaults& defaults, ModelConfig& c) {
  c.vocab_size = json.Int("vocab_size", 1, kMaxVocabulary, defaults.vocab_size);
  c.hidden_size = json.Int("hidden_size", 1, kMaxWidth, defaults.hidden_size);
  c.num_layers = json.Int("num_hidden_layers", 1, kMaxLayers, defaults.layers);
  c.max_positions = json.Int("max_position_embeddings", 1, kMaxPositions, defaults.max_positions);
  c.intermediate_size = json.Int("intermediate_size", 1, kMaxWidth, defaults.intermediate_size);
  c.moe_intermediate_size =
      json.Int("moe_intermediate_size", 1, kMaxWidth, defaults.moe_intermediate_size);
  // Explicit null or 0: no shared expert.
  c.num_shared_experts =
      json.IsNull("n_shared_experts")
          ? 0
          : json.Int("n_shared_experts", 0, kMaxExperts, defaults.shared_experts);
  CheckedMul(c.moe_intermediate_size, c.num_shared_experts, "width of the shared expert");
  c.rms_norm_eps = json.Number("rms_norm_eps", 0, 1, 1e-6);
  c.tie_word_embeddings = json.Bool("tie_word_embeddings", false);
  const std::string act = json.String("hidden_act", "silu");
  if (act != "silu" && act != "swish") json.Refuse("hidden_act", "'silu'");
  if (json.HasValue("mlp_bias") && json.Bool("mlp_bias")) json.Refuse("mlp_bias", "false");

  // moe_layer_freq is ignored, as in the reference.
  const int64_t dense = json.Int("first_k_dense_replace", 0, c.num_layers,
                                 std::min(defaults.first_dense, c.num_layers));
  const bool has_experts = !json.IsNull("n_routed_experts");
  c.is_moe.assign(static_cast<size_t>(c.num_layers), false);
  for (int64_t l = has_experts ? dense : c.num_layers; l < c.num_layers; ++l) {
    c.is_moe[static_cast<size_t>(l)] = true;
  }
  ReadAttention(json, defaults, c);
  ReadRopeAndScale(json, c);

  c.bos_id.reset();
  const int64_t bos =
      json.IsNull("bos_token_id") ? -1 : json.Int("bos_token_id", 0, kMaxTokenId, defaults.bos_id);
  if (bos >= 0) c.bos_id = static_cast<int32_t>(bos);
  auto eos = json.IntOrList("eos_token_id", 0, kMaxTokenId);
  if (!json.Has("eos_token_id")) eos.push_back(defaults.eos_id);
  c.eos_ids.assign(eos.begin(), eos.end());
}

bool HasMoe(const ModelConfig& c) {
  return std::find(c.is_moe.begin(), c.is_moe.end(), true) != c.is_moe.end();
}

int64_t ReadExperts(const JsonObject& json, const Defaults& defaults) {
  return json.Int("n_routed_experts", 1, kMaxExperts, defaults.routed_experts);
}

// Groups must divide the experts, and the kept ones must hold enough of them.
void CheckRouter(const JsonObject& json, const RouterConfig& r) {
  if (r.experts_per_token > r.experts) {
    json.Reject("num_experts_per_tok", fmt::format("at most n_routed_experts, {}", r.experts));
  }
  if (r.groups == 1) return;
  if (r.experts % r.groups != 0) {
    json.Reject("n_group", fmt::format("a divisor of n_routed_experts, {}", r.experts));
  }
  const int64_t group_size = r.experts / r.groups;
  if (r.group_score == GroupScore::kTop2Sum && group_size < 2) {
    json.Reject("n_group", fmt::format("at most {}: a group is scored by its two best experts",
                                       r.experts / 2));
  }
  if (r.groups_kept > r.groups) {
    json.Reject("topk_group", fmt::format("at most n_group, {}", r.groups));
  }
  if (r.experts_per_token > r.groups_kept * group_size) {
    json.Reject("num_experts_per_tok",
                fmt::format("at most {}, the experts of topk_group = {} groups",
                            r.groups_kept * group_size, r.groups_kept));
  }
}

// Softmax scores; weights scaled, never normalised: norm_topk_prob is ignored by the reference.
void ReadV2(const JsonObject& json, ModelConfig& c) {
  ReadCommon(json, kV2Defaults, c);
  if (!HasMoe(c)) return;
  RouterConfig& r = c.router;
  r.experts = ReadExperts(json, kV2Defaults);
  r.experts_per_token = json.Int("num_experts_per_tok", 1, kMaxExperts);
  r.score = RouterScore::kSoftmax;
  r.group_score = GroupScore::kMax;
  r.masked = MaskedGroups::kZero;
  r.scaling = json.Number("routed_scaling_factor", -1e6, 1e6, kV2Defaults.routed_scaling);
  if (json.HasValue("scoring_func") && json.String("scoring_func") != "softmax") {
    json.Refuse("scoring_func", "'softmax' for this model_type");
  }
  const std::string method = json.HasValue("topk_method") ? json.String("topk_method") : "greedy";
  if (method == "group_limited_greedy") {
    r.groups = json.Int("n_group", 1, kMaxExperts);
    r.groups_kept = json.Int("topk_group", 1, kMaxExperts);
  } else if (method != "greedy") {
    json.Refuse("topk_method", "'greedy' or 'group_limited_greedy' for this model_type");
  }
  CheckRouter(json, r);
}

// Sigmoid scores; a bias that takes part in the selection only; groups scored by their two best.
void ReadV3(const JsonObject& json, ModelConfig& c) {
  ReadCommon(json, kV3Defaults, c);
  c.rope.style =
      json.Bool("rope_interleave", true) ? RopeStyle::kInterleaved : RopeStyle::kHalfSplit;
  if (!HasMoe(c)) return;
  RouterConfig& r = c.router;
  r.experts = ReadExperts(json, kV3Defaults);
  r.experts_per_token = json.Int("num_experts_per_tok", 1, kMaxExperts, 8);
  r.groups = json.Int("n_group", 1, kMaxExperts, 8);
  r.groups_kept = json.Int("topk_group", 1, kMaxExperts, 4);
  r.score = RouterScore::kSigmoid;
  r.group_score = GroupScore::kTop2Sum;
  r.masked = MaskedGroups::kMinusInfinity;
  r.has_bias = true;
  r.normalize = json.Bool("norm_topk_prob", true);
  r.scaling = json.Number("routed_scaling_factor", -1e6, 1e6, kV3Defaults.routed_scaling);
  if (json.HasValue("scoring_func") && json.String("scoring_func") != "sigmoid") {
    json.Refuse("scoring_func", "'sigmoid' for this model_type");
  }
  if (json.HasValue("topk_method") && json.String("topk_method") != "noaux_tc") {
    json.Refuse("topk_method", "'noaux_tc' for this model_type");
  }
  CheckRouter(json, r);
}

struct Family {
  const char* model_type;
  const char* architecture;
  void (*read)(const JsonObject&, ModelConfig&);
};

// The one table of families. An architecture may serve several model types.
constexpr Family kFamilies[] = {
    {"deepseek_v2", "DeepseekV2ForCausalLM", ReadV2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", ReadV3},
    {"kimi_k2", "DeepseekV3ForCausalLM", ReadV3},
};

std::string Supported() {
  std::string text = "one of";
  for (const Family& f : kFamilies) {
    text += fmt::format("{} {} ({})", &f == kFamilies ? "" : ",", f.model_type, f.architecture);
  }
  return text;
}

const Family& FindFamily(const JsonObject& json) {
  const auto architectures = json.Strings("architectures");
  if (json.HasValue("model_type")) {
    const std::string type = json.String("model_type");
    for (const Family& f : kFamilies) {
      if (type != f.model_type) continue;
      // Another class on the same model_type is another graph (a draft head, a classifier).
      if (!architectures.empty() && architectures[0] != f.architecture) {
        json.Refuse("architectures", Supported());
      }
      return f;
    }
    json.Refuse("model_type", Supported());
  }
  if (architectures.empty()) json.Reject("model_type", Supported());
  for (const Family& f : kFamilies) {
    if (architectures[0] == f.architecture) return f;
  }
  json.Refuse("architectures", Supported());
}

void SortUnique(std::vector<int32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

ModelConfig FromJson(const JsonObject& json) {
  const Family& family = FindFamily(json);
  if (json.HasValue("quantization_config")) {
    json.Refuse(
        "quantization_config",
        "none: this version reads bf16, f16 and f32 weights; use an unquantised checkpoint");
  }
  if (json.HasValue("dtype") && json.HasValue("torch_dtype") &&
      json.String("dtype") != json.String("torch_dtype")) {
    json.Reject("dtype", "the same as torch_dtype, '" + json.String("torch_dtype") + "'");
  }
  ModelConfig c;
  family.read(json, c);
  c.family = json.HasValue("model_type") ? json.String("model_type") : family.model_type;
  SortUnique(c.eos_ids);
  return c;
}

std::string GenerationConfigPath(const std::string& directory) {
  const auto path = std::filesystem::path(directory) / "generation_config.json";
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path.string() : std::string();
}

}  // namespace

ModelConfig ParseConfig(std::string_view text, const std::string& label) {
  return FromJson(JsonObject::Parse(text, label));
}

ModelConfig ReadConfig(const std::string& directory) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored)) {
    Fail(ErrorCode::kNotFound, "{}: no such directory; expected a model directory", directory);
  }
  const std::string path = (std::filesystem::path(directory) / "config.json").string();
  ModelConfig c = FromJson(JsonObject::Read(path, kMaxConfigBytes));
  const std::string generation = GenerationConfigPath(directory);
  if (!generation.empty()) {
    const auto json = JsonObject::Read(generation, kMaxConfigBytes);
    for (int64_t id : json.IntOrList("eos_token_id", 0, kMaxTokenId)) {
      c.eos_ids.push_back(static_cast<int32_t>(id));
    }
    SortUnique(c.eos_ids);
  }
  return c;
}

GenerationDefaults ReadGenerationDefaults(const std::string& directory) {
  GenerationDefaults d;
  const std::string path = GenerationConfigPath(directory);
  if (path.empty()) return d;
  const auto json = JsonObject::Read(path, kMaxConfigBytes);
  const auto number = [&](const char* key, double least, double most, double fallback) {
    return json.HasValue(key) ? json.Number(key, least, most) : fallback;
  };
  const bool sample = json.HasValue("do_sample") && json.Bool("do_sample");
  const double temperature = number("temperature", 0, 1e3, 1);
  d.temperature = sample ? temperature : 0;
  // Other engines write -1 for "off".
  if (json.HasValue("top_k")) d.top_k = std::max<int64_t>(0, json.Int("top_k", -1, kMaxTokenId));
  d.top_p = number("top_p", std::numeric_limits<double>::min(), 1, 1);
  d.min_p = number("min_p", 0, 1, 0);
  d.repeat_penalty = number("repetition_penalty", 1e-3, 1e3, 1);
  return d;
}

}  // namespace mla
