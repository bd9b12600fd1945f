#include <string>

#include <gtest/gtest.h>

#include "support/config_edit.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

using Json = nlohmann::json;
constexpr auto kBad = ErrorCode::kBadInput;
constexpr auto kUnsupported = ErrorCode::kUnsupported;

// The golden's configuration with one field replaced.
void ExpectField(const char* golden, const char* key, const Json& value, ErrorCode code,
                 std::initializer_list<const char*> parts) {
  Json json = GoldenConfig(golden);
  json[key] = value;
  SCOPED_TRACE(std::string(golden) + ": " + key + " = " + value.dump());
  ExpectError(code, parts, [&] { ParseConfig(json); });
}

void ExpectRope(const char* key, const Json& value, ErrorCode code,
                std::initializer_list<const char*> parts) {
  Json json = GoldenConfig("deepseek_v3");
  json["rope_scaling"][key] = value;
  SCOPED_TRACE(std::string(key) + " = " + value.dump());
  ExpectError(code, parts, [&] { ParseConfig(json); });
}

TEST(ConfigBadInput, EveryIntegerFieldIsGuarded) {
  const Json bad_values[] = {0,
                             -1,
                             "72",
                             1.0,
                             1.5,
                             true,
                             nullptr,
                             Json::array({1}),
                             Json::object(),
                             int64_t{1} << 41,
                             INT64_MAX,
                             UINT64_MAX,
                             1e30};
  for (const char* golden : {"deepseek_v2", "deepseek_v3", "kimi_k2"}) {
    for (const char* key :
         {"vocab_size", "hidden_size", "intermediate_size", "moe_intermediate_size",
          "num_hidden_layers", "num_attention_heads", "q_lora_rank", "kv_lora_rank",
          "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "max_position_embeddings",
          "n_routed_experts", "num_experts_per_tok", "n_group", "topk_group", "n_shared_experts",
          "first_k_dense_replace"}) {
      for (const Json& value : bad_values) {
        const std::string name = key;
        const bool null_is_none =
            name == "q_lora_rank" || name == "n_routed_experts" || name == "n_shared_experts";
        if (value.is_null() && null_is_none) continue;
        const bool zero_is_none = name == "n_shared_experts" || name == "first_k_dense_replace";
        if (value == 0 && zero_is_none) continue;
        ExpectField(golden, key, value, kBad,
                    {"config.json: ", key, " is ", "; expected an integer from "});
      }
    }
  }
}

TEST(ConfigBadInput, OtherFieldTypes) {
  for (const Json& value : {Json("1e-6"), Json(-1e-6), Json(nullptr), Json(2)}) {
    ExpectField("deepseek_v3", "rms_norm_eps", value, kBad, {"rms_norm_eps is", "a number from"});
  }
  for (const Json& value : {Json("2.5"), Json(1e9), Json(nullptr)}) {
    ExpectField("deepseek_v3", "routed_scaling_factor", value, kBad, {"routed_scaling_factor is"});
  }
  for (const char* key :
       {"attention_bias", "tie_word_embeddings", "norm_topk_prob", "rope_interleave"}) {
    for (const Json& value : {Json("true"), Json(1), Json(nullptr)}) {
      ExpectField("deepseek_v3", key, value, kBad, {key, "true or false"});
    }
  }
  ExpectField("deepseek_v3", "model_type", 3, kBad, {"model_type is 3", "a string"});
  ExpectField("deepseek_v3", "architectures", "x", kBad, {"architectures", "a list of strings"});
  ExpectField("deepseek_v3", "eos_token_id", "</s>", kBad, {"eos_token_id"});
  ExpectField("deepseek_v3", "eos_token_id", {1, -1}, kBad, {"eos_token_id"});
  ExpectField("deepseek_v3", "eos_token_id", int64_t{1} << 31, kBad, {"eos_token_id"});
  ExpectField("deepseek_v3", "bos_token_id", -1, kBad, {"bos_token_id is -1"});
}

TEST(ConfigBadInput, MissingFields) {
  Json json = GoldenConfig("deepseek_v2");
  json.erase("num_experts_per_tok");
  ExpectError(kBad, {"num_experts_per_tok is missing"}, [&] { ParseConfig(json); });
  json = GoldenConfig("deepseek_v2");
  json.erase("n_group");
  ExpectError(kBad, {"n_group is missing"}, [&] { ParseConfig(json); });
  json = GoldenConfig("deepseek_v3");
  json["rope_scaling"].erase("factor");
  ExpectError(kBad, {"rope_scaling.factor is missing"}, [&] { ParseConfig(json); });
  json = GoldenConfig("deepseek_v3");
  json["rope_scaling"].erase("type");
  ExpectError(kBad, {"rope_scaling.rope_type is missing"}, [&] { ParseConfig(json); });
  ExpectError(kBad, {"c: model_type is missing", "deepseek_v3"}, [] { ParseConfig("{}", "c"); });
}

TEST(ConfigBadInput, ContradictoryFields) {
  ExpectField("deepseek_v3", "num_experts_per_tok", 13, kBad,
              {"num_experts_per_tok is 13", "at most n_routed_experts, 12"});
  ExpectField("deepseek_v3", "num_experts_per_tok", 7, kBad,
              {"num_experts_per_tok is 7", "at most 6", "topk_group = 2"});
  ExpectField("deepseek_v2", "num_experts_per_tok", 7, kBad, {"num_experts_per_tok is 7"});
  ExpectField("deepseek_v3", "n_group", 5, kBad, {"n_group is 5", "divisor", "12"});
  ExpectField("deepseek_v3", "n_group", 12, kBad, {"n_group is 12", "at most 6"});
  ExpectField("deepseek_v3", "topk_group", 5, kBad, {"topk_group is 5", "at most n_group, 4"});
  ExpectField("deepseek_v3", "first_k_dense_replace", 4, kBad, {"first_k_dense_replace is 4"});
  ExpectField("deepseek_v3", "qk_rope_head_dim", 15, kBad, {"qk_rope_head_dim is 15", "even"});
  // Groups of one expert are fine where the best expert alone is the score.
  Json json = GoldenConfig("deepseek_v2");
  json["n_group"] = 12;
  json["topk_group"] = 6;
  EXPECT_NO_THROW(ParseConfig(json));
  // Widths that fit one by one, but not together.
  json = GoldenConfig("deepseek_v3");
  for (const char* key : {"num_attention_heads", "v_head_dim", "kv_lora_rank"}) {
    json[key] = int64_t{1} << 20;
  }
  ExpectError(kBad, {"config.json", "does not fit in 63 bits"}, [&] { ParseConfig(json); });
}

TEST(ConfigBadInput, Rope) {
  for (const char* type : {"linear", "dynamic", "longrope", "llama3", "deepseek_yarn", ""}) {
    ExpectRope("type", type, kUnsupported, {"rope_scaling.type is", type, "'default' or 'yarn'"});
  }
  ExpectRope("type", 3, kBad, {"rope_scaling.type is 3"});
  for (const Json& value : {Json(0), Json(-1), Json("40"), Json(0.5), Json(1e9), Json(nullptr)}) {
    ExpectRope("factor", value, kBad, {"rope_scaling.factor is"});
  }
  for (const Json& value : {Json(0), Json(-1), Json("64"), Json(64.0), Json(INT64_MAX)}) {
    ExpectRope("original_max_position_embeddings", value, kBad,
               {"rope_scaling.original_max_position_embeddings is"});
  }
  ExpectRope("beta_fast", -1, kBad, {"rope_scaling.beta_fast is -1"});
  ExpectRope("beta_fast", 0.5, kBad, {"rope_scaling.beta_fast is 0.5", "at least beta_slow"});
  ExpectRope("mscale", "1", kBad, {"rope_scaling.mscale is"});
  ExpectRope("mscale_all_dim", -1, kBad, {"rope_scaling.mscale_all_dim is"});
  ExpectRope("attention_factor", 0, kBad, {"rope_scaling.attention_factor is 0"});
  ExpectRope("truncate", 1, kBad, {"rope_scaling.truncate is 1"});
  for (const Json& value : {Json(0), Json(1), Json(-10000), Json("10000"), Json(1e300)}) {
    ExpectField("deepseek_v3", "rope_theta", value, kBad, {"rope_theta is"});
  }
  ExpectField("deepseek_v3", "rope_scaling", "yarn", kBad, {"rope_scaling is", "an object"});
  ExpectField("deepseek_v3", "rope_parameters", 3, kBad, {"rope_parameters is", "an object"});
}

TEST(ConfigBadInput, UnsupportedModels) {
  for (const char* type :
       {"llama", "deepseek_v32", "glm4_moe_lite", "mistral_large4", "hy_v4", "hy_v4_vl",
        "glm5_next", "dots3_note", "bailing_hybrid", "kimi_linear", "kimi_k25", ""}) {
    ExpectField("deepseek_v3", "model_type", type, kUnsupported,
                {"model_type is", type, "deepseek_v2", "deepseek_v3", "kimi_k2"});
  }
  ExpectField("deepseek_v3", "architectures", {"LlamaForCausalLM"}, kUnsupported,
              {"architectures", "LlamaForCausalLM", "DeepseekV3ForCausalLM"});
  Json json = GoldenConfig("deepseek_v3");
  json.erase("model_type");
  json["architectures"] = {"LlamaForCausalLM"};
  ExpectError(kUnsupported, {"LlamaForCausalLM", "deepseek_v3"}, [&] { ParseConfig(json); });
}

TEST(ConfigBadInput, UnsupportedVariants) {
  ExpectField("deepseek_v3", "scoring_func", "softmax", kUnsupported,
              {"scoring_func is \"softmax\"", "'sigmoid'"});
  ExpectField("deepseek_v3", "scoring_func", "sqrtsoftplus", kUnsupported, {"scoring_func"});
  ExpectField("deepseek_v3", "topk_method", "greedy", kUnsupported, {"topk_method", "noaux_tc"});
  ExpectField("deepseek_v2", "scoring_func", "sigmoid", kUnsupported,
              {"scoring_func is \"sigmoid\"", "'softmax'"});
  ExpectField("deepseek_v2", "topk_method", "noaux_tc", kUnsupported,
              {"topk_method is \"noaux_tc\"", "group_limited_greedy"});
  ExpectField("deepseek_v2", "topk_method", 1, kBad, {"topk_method is 1"});
  ExpectField("deepseek_v3", "hidden_act", "gelu", kUnsupported, {"hidden_act is \"gelu\""});
  ExpectField("deepseek_v2", "mlp_bias", true, kUnsupported, {"mlp_bias is true"});
  ExpectField("deepseek_v3", "quantization_config", {{"quant_method", "fp8"}}, kUnsupported,
              {"quantization_config", "unquantised checkpoint"});
}

TEST(ConfigBadInput, Files) {
  ExpectError(ErrorCode::kNotFound, {"/no/such/model", "no such directory"},
              [] { ReadConfig("/no/such/model"); });
  TempDir dir;
  ExpectError(ErrorCode::kNotFound, {"config.json"}, [&] { ReadConfig(dir.path()); });
  dir.Write("config.json", "{\"model_type\": ");
  ExpectError(kBad, {"config.json", "not valid JSON"}, [&] { ReadConfig(dir.path()); });
  dir.Write("config.json", std::string(20, '['));
  ExpectError(kBad, {"config.json"}, [&] { ReadConfig(dir.path()); });
  dir.Write("config.json", R"({"hidden_size": 1, "hidden_size": 2})");
  ExpectError(kBad, {"\"hidden_size\" appears twice"}, [&] { ReadConfig(dir.path()); });
  dir.Write("config.json", std::string("{\"x\": \"") + std::string(17 << 20, 'x') + "\"}");
  ExpectError(kBad, {"config.json", "at most"}, [&] { ReadConfig(dir.path()); });
}

}  // namespace
}  // namespace mla
