#include "model/config_reader.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "support/config_edit.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

using Json = nlohmann::json;

// m(f, c) of the YaRN magnitude, independent of the code under test.
double Magnitude(double f, double c) { return 0.1 * c * std::log(f) + 1; }

TEST(ConfigReader, V2Lite) {
  const ModelConfig c = ReadConfig(GoldenDirectory("deepseek_v2_lite"));
  EXPECT_EQ(c.family, "deepseek_v2");
  EXPECT_EQ(c.vocab_size, 256);
  EXPECT_EQ(c.hidden_size, 72);
  EXPECT_EQ(c.num_layers, 3);
  EXPECT_EQ(c.attention.heads, 6);
  EXPECT_EQ(c.attention.q_rank, 0);
  EXPECT_EQ(c.attention.kv_rank, 48);
  EXPECT_EQ(c.attention.nope, 24);
  EXPECT_EQ(c.attention.rope, 16);
  EXPECT_EQ(c.attention.v_dim, 20);
  EXPECT_FALSE(c.attention_bias);
  EXPECT_EQ(c.is_moe, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(c.num_shared_experts, 2);
  EXPECT_EQ(c.router.score, RouterScore::kSoftmax);
  EXPECT_EQ(c.router.groups, 1);
  EXPECT_FALSE(c.router.has_bias);
  EXPECT_FALSE(c.router.normalize);
  EXPECT_EQ(c.rope.style, RopeStyle::kInterleaved);
  EXPECT_EQ(c.rope.type, RopeType::kYarn);
  EXPECT_EQ(c.rope.factor, 40);
  EXPECT_EQ(c.rope.attention_factor, 1);
  EXPECT_NEAR(c.softmax_scale, 1.589626 / std::sqrt(40.0), 1e-6);
  EXPECT_EQ(c.lora_norm_eps, 1e-6);
}

TEST(ConfigReader, V2WithGroups) {
  const ModelConfig c = ReadConfig(GoldenDirectory("deepseek_v2"));
  EXPECT_EQ(c.attention.q_rank, 36);
  EXPECT_EQ(c.router.groups, 4);
  EXPECT_EQ(c.router.groups_kept, 2);
  EXPECT_EQ(c.router.group_score, GroupScore::kMax);
  EXPECT_EQ(c.router.masked, MaskedGroups::kZero);
  EXPECT_EQ(c.router.scaling, 2.0);
  EXPECT_FALSE(c.router.normalize);
}

TEST(ConfigReader, V2IgnoresWhatTheReferenceIgnores) {
  Json json = GoldenConfig("deepseek_v2_lite");
  json["norm_topk_prob"] = true;
  json["n_group"] = 5;  // greedy does not group
  json["moe_layer_freq"] = 2;
  json["num_key_value_heads"] = 1;
  json["head_dim"] = 192;
  json["rope_interleave"] = false;
  const ModelConfig c = ParseConfig(json);
  EXPECT_FALSE(c.router.normalize);
  EXPECT_EQ(c.router.groups, 1);
  EXPECT_EQ(c.is_moe, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(c.attention.rope, 16);
  EXPECT_EQ(c.rope.style, RopeStyle::kInterleaved);
}

TEST(ConfigReader, V3) {
  const ModelConfig c = ReadConfig(GoldenDirectory("deepseek_v3"));
  EXPECT_EQ(c.router.score, RouterScore::kSigmoid);
  EXPECT_EQ(c.router.group_score, GroupScore::kTop2Sum);
  EXPECT_EQ(c.router.masked, MaskedGroups::kMinusInfinity);
  EXPECT_EQ(c.router.experts, 12);
  EXPECT_EQ(c.router.experts_per_token, 4);
  EXPECT_EQ(c.router.groups, 4);
  EXPECT_EQ(c.router.groups_kept, 2);
  EXPECT_TRUE(c.router.has_bias);
  EXPECT_TRUE(c.router.normalize);
  EXPECT_EQ(c.router.scaling, 2.5);
  EXPECT_EQ(c.num_layers, 3);
  EXPECT_EQ(c.bos_id, 0);
  EXPECT_EQ(c.eos_ids, (std::vector<int32_t>{1}));
  Json json = GoldenConfig("deepseek_v3");
  json["rope_interleave"] = false;
  EXPECT_EQ(ParseConfig(json).rope.style, RopeStyle::kHalfSplit);
  EXPECT_TRUE(ReadConfig(GoldenDirectory("deepseek_v3_bias")).attention_bias);
}

TEST(ConfigReader, MoonlightHasNoScalingAndKeepsLoraEps) {
  const ModelConfig c = ReadConfig(GoldenDirectory("moonlight"));
  EXPECT_EQ(c.attention.q_rank, 0);
  EXPECT_EQ(c.rope.type, RopeType::kDefault);
  EXPECT_EQ(c.rope.theta, 50000);
  EXPECT_DOUBLE_EQ(c.softmax_scale, 1 / std::sqrt(40.0));
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(c.lora_norm_eps, 1e-6);
}

TEST(ConfigReader, KimiK2) {
  const ModelConfig c = ReadConfig(GoldenDirectory("kimi_k2"));
  EXPECT_EQ(c.family, "kimi_k2");
  EXPECT_EQ(c.rope.beta_fast, 1);
  EXPECT_EQ(c.rope.beta_slow, 1);
  EXPECT_EQ(c.router.scaling, 2.827);
}

TEST(ConfigReader, EmbeddedModel) {
  const ModelConfig c = ReadConfig(std::string(MLA_MODELS) + "/stories-mla");
  EXPECT_EQ(c.num_layers, 6);
  EXPECT_EQ(c.vocab_size, 4096);
  EXPECT_EQ(c.rope.original_max_positions, 512);
  EXPECT_EQ(c.eos_ids, (std::vector<int32_t>{1}));
}

// What the reference's classes take for absent keys.
TEST(ConfigReader, DefaultsOfTheFamilies) {
  const ModelConfig v3 = ParseConfig(R"({"model_type": "deepseek_v3"})", "c");
  EXPECT_EQ(v3.vocab_size, 129280);
  EXPECT_EQ(v3.hidden_size, 7168);
  EXPECT_EQ(v3.intermediate_size, 18432);
  EXPECT_EQ(v3.moe_intermediate_size, 2048);
  EXPECT_EQ(v3.num_layers, 61);
  EXPECT_EQ(v3.attention.heads, 128);
  EXPECT_EQ(v3.attention.q_rank, 1536);  // absent is not null
  EXPECT_EQ(v3.attention.kv_rank, 512);
  EXPECT_EQ(v3.attention.nope, 128);
  EXPECT_EQ(v3.attention.rope, 64);
  EXPECT_EQ(v3.attention.v_dim, 128);
  EXPECT_EQ(v3.num_shared_experts, 1);
  EXPECT_EQ(v3.router.experts, 256);
  EXPECT_EQ(v3.router.experts_per_token, 8);
  EXPECT_EQ(v3.router.groups, 8);
  EXPECT_EQ(v3.router.groups_kept, 4);
  EXPECT_EQ(v3.router.scaling, 2.5);
  EXPECT_TRUE(v3.router.normalize);
  EXPECT_FALSE(v3.is_moe[2]);
  EXPECT_TRUE(v3.is_moe[3]);
  EXPECT_EQ(v3.max_positions, 4096);
  EXPECT_EQ(v3.rope.theta, 10000);
  EXPECT_EQ(v3.eos_ids, (std::vector<int32_t>{1}));
  const ModelConfig v2 =
      ParseConfig(R"({"model_type": "deepseek_v2", "num_experts_per_tok": 6})", "c");
  EXPECT_EQ(v2.vocab_size, 32000);
  EXPECT_EQ(v2.hidden_size, 4096);
  EXPECT_EQ(v2.intermediate_size, 11008);
  EXPECT_EQ(v2.moe_intermediate_size, 1407);
  EXPECT_EQ(v2.num_layers, 32);
  EXPECT_EQ(v2.attention.heads, 32);
  EXPECT_EQ(v2.attention.q_rank, 1536);
  EXPECT_EQ(v2.num_shared_experts, 2);
  EXPECT_EQ(v2.router.experts, 64);
  EXPECT_EQ(v2.router.scaling, 1.0);
  EXPECT_TRUE(v2.is_moe[0]);
  EXPECT_EQ(v2.max_positions, 2048);
  EXPECT_EQ(v2.bos_id, 1);
  EXPECT_EQ(v2.eos_ids, (std::vector<int32_t>{2}));
}

TEST(ConfigReader, DenseModels) {
  Json json = GoldenConfig("deepseek_v3");
  json["first_k_dense_replace"] = 3;
  EXPECT_EQ(ParseConfig(json).router.experts, 0);
  EXPECT_EQ(ParseConfig(json).is_moe, std::vector<bool>(3, false));
  json["first_k_dense_replace"] = 1;
  json["n_routed_experts"] = nullptr;
  EXPECT_EQ(ParseConfig(json).is_moe, std::vector<bool>(3, false));
  json = GoldenConfig("deepseek_v3");
  json["n_shared_experts"] = nullptr;
  EXPECT_EQ(ParseConfig(json).num_shared_experts, 0);
}

TEST(ConfigReader, FamilyFromArchitectureAlone) {
  Json json = GoldenConfig("deepseek_v3");
  json.erase("model_type");
  EXPECT_EQ(ParseConfig(json).family, "deepseek_v3");
  json = GoldenConfig("deepseek_v2");
  json.erase("architectures");
  EXPECT_EQ(ParseConfig(json).family, "deepseek_v2");
}

// Values of the magnitudes as published for the released models.
TEST(ConfigReader, YarnMagnitudes) {
  struct Case {
    const char* rope;
    double a;
    double m2;
  };
  const double m1 = Magnitude(40, 1);
  const Case cases[] = {
      {R"("factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707)", 1, 1.589626},  // V2
      {R"("factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0)", 1, 1.873854},      // V3
      {R"("factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0)", 1, 1.813260},    // K2
      {R"("factor": 64.0, "mscale": 1.0, "mscale_all_dim": 1.0)", 1, 2.004740},    // K2-Thinking
      {R"("factor": 128.0, "mscale": 1, "mscale_all_dim": 1)", 1, 2.205828},
      {R"("factor": 40, "mscale": 0.707)", m1, 1},                     // one alone
      {R"("factor": 40, "mscale_all_dim": 0.707)", m1, 1.589626},      // the other
      {R"("factor": 40, "mscale": 1.0, "mscale_all_dim": 0)", m1, 1},  // 0: absent
      {R"("factor": 40)", m1, 1},
      {R"("factor": 40, "mscale": 1.0, "mscale_all_dim": 0.707)", m1 / Magnitude(40, 0.707),
       1.589626},
      {R"("factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.25)", 1.25,
       1.873854},
      {R"("factor": 1, "mscale": 0.707, "mscale_all_dim": 1.0)", 1, 1},
  };
  for (const Case& test : cases) {
    for (const char* family : {"deepseek_v2_lite", "deepseek_v3"}) {
      Json json = GoldenConfig(family);
      json["rope_scaling"] = Json::parse(std::string(R"({"type": "yarn", )") + test.rope + "}");
      const ModelConfig c = ParseConfig(json);
      EXPECT_NEAR(c.rope.attention_factor, test.a, 1e-9) << test.rope;
      EXPECT_NEAR(c.softmax_scale * std::sqrt(40.0), test.m2, 1e-6) << test.rope;
    }
  }
}

TEST(ConfigReader, YarnDefaults) {
  Json json = GoldenConfig("deepseek_v3");
  json["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}, {"beta_fast", nullptr}};
  const RopeConfig rope = ParseConfig(json).rope;
  EXPECT_EQ(rope.original_max_positions, 2560);  // max_position_embeddings
  EXPECT_EQ(rope.beta_fast, 32);
  EXPECT_EQ(rope.beta_slow, 1);
  EXPECT_TRUE(rope.truncate);
  json["rope_scaling"]["truncate"] = false;
  EXPECT_FALSE(ParseConfig(json).rope.truncate);
}

// The new spelling: rope_parameters and dtype, with keys that re-saving adds.
Json Respelled(const std::string& golden) {
  Json json = GoldenConfig(golden);
  Json rope = json["rope_scaling"].is_null() ? Json::object() : json["rope_scaling"];
  rope["rope_type"] = rope.value("type", "default");
  rope.erase("type");
  rope["rope_theta"] = json["rope_theta"];
  json.erase("rope_scaling");
  json.erase("rope_theta");
  json["rope_parameters"] = rope;
  json["dtype"] = json["torch_dtype"];
  json.erase("torch_dtype");
  json["head_dim"] = json["qk_rope_head_dim"];
  json["qk_head_dim"] = 40;
  return json;
}

void ExpectSameModel(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.rope.type, b.rope.type);
  EXPECT_EQ(a.rope.theta, b.rope.theta);
  EXPECT_EQ(a.rope.factor, b.rope.factor);
  EXPECT_EQ(a.rope.original_max_positions, b.rope.original_max_positions);
  EXPECT_EQ(a.rope.beta_fast, b.rope.beta_fast);
  EXPECT_EQ(a.rope.beta_slow, b.rope.beta_slow);
  EXPECT_EQ(a.rope.attention_factor, b.rope.attention_factor);
  EXPECT_EQ(a.softmax_scale, b.softmax_scale);
  EXPECT_EQ(a.attention.rope, b.attention.rope);
}

TEST(ConfigReader, BothSpellingsGiveTheSameModel) {
  for (const char* name : {"deepseek_v2_lite", "deepseek_v3", "moonlight", "kimi_k2"}) {
    const ModelConfig old_spelling = ParseConfig(GoldenConfig(name));
    const Json respelled = Respelled(name);
    ExpectSameModel(old_spelling, ParseConfig(respelled));
    Json both = respelled;
    both.update(GoldenConfig(name));
    ASSERT_TRUE(both.contains("rope_parameters") && both.contains("rope_theta"));
    ExpectSameModel(old_spelling, ParseConfig(both));
  }
}

TEST(ConfigReader, BothSpellingsAndDifferent) {
  const auto bad = ErrorCode::kBadInput;
  Json both = Respelled("deepseek_v3");
  both["rope_scaling"] = GoldenConfig("deepseek_v3")["rope_scaling"];
  EXPECT_NO_THROW(ParseConfig(both));
  both["rope_scaling"]["factor"] = 32;
  ExpectError(bad, {"rope_parameters", "rope_scaling"}, [&] { ParseConfig(both); });
  both["rope_scaling"] = {{"type", "default"}};
  ExpectError(bad, {"rope_parameters", "rope_scaling"}, [&] { ParseConfig(both); });
  both.erase("rope_scaling");
  both["rope_theta"] = 50000;
  ExpectError(bad, {"rope_parameters.rope_theta is 10000", "50000"}, [&] { ParseConfig(both); });
  Json types = GoldenConfig("deepseek_v3");
  types["rope_scaling"]["rope_type"] = "yarn";
  EXPECT_NO_THROW(ParseConfig(types));
  types["rope_scaling"]["rope_type"] = "default";
  ExpectError(bad, {"rope_scaling.type is \"yarn\"", "'default'"}, [&] { ParseConfig(types); });
  Json dtype = GoldenConfig("deepseek_v3");
  dtype["dtype"] = "bfloat16";
  EXPECT_NO_THROW(ParseConfig(dtype));
  dtype["dtype"] = "float32";
  ExpectError(bad, {"dtype is \"float32\"", "'bfloat16'"}, [&] { ParseConfig(dtype); });
}

TEST(ConfigReader, EndIdsAreAUnion) {
  TempDir dir;
  Json json = GoldenConfig("deepseek_v3");
  json["eos_token_id"] = {7, 3};
  dir.Write("config.json", json.dump());
  EXPECT_EQ(ReadConfig(dir.path()).eos_ids, (std::vector<int32_t>{3, 7}));
  dir.Write("generation_config.json", R"({"eos_token_id": [5, 3]})");
  EXPECT_EQ(ReadConfig(dir.path()).eos_ids, (std::vector<int32_t>{3, 5, 7}));
  dir.Write("generation_config.json", R"({"eos_token_id": 9})");
  EXPECT_EQ(ReadConfig(dir.path()).eos_ids, (std::vector<int32_t>{3, 7, 9}));
  json["eos_token_id"] = nullptr;
  json["bos_token_id"] = nullptr;
  dir.Write("config.json", json.dump());
  EXPECT_EQ(ReadConfig(dir.path()).eos_ids, (std::vector<int32_t>{9}));
  EXPECT_FALSE(ReadConfig(dir.path()).bos_id.has_value());
  dir.Write("generation_config.json", R"({"eos_token_id": "</s>"})");
  ExpectError(ErrorCode::kBadInput, {"generation_config.json", "eos_token_id"},
              [&] { ReadConfig(dir.path()); });
}

TEST(ConfigReader, GenerationDefaults) {
  TempDir dir;
  EXPECT_EQ(ReadGenerationDefaults(dir.path()).temperature, 0);
  dir.Write("generation_config.json",
            R"({"do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 40, "min_p": 0.05,
                "repetition_penalty": 1.1})");
  const GenerationDefaults d = ReadGenerationDefaults(dir.path());
  EXPECT_EQ(d.temperature, 0.6);
  EXPECT_EQ(d.top_p, 0.95);
  EXPECT_EQ(d.top_k, 40);
  EXPECT_EQ(d.min_p, 0.05);
  EXPECT_EQ(d.repeat_penalty, 1.1);
  dir.Write("generation_config.json", R"({"do_sample": false, "temperature": 0.6})");
  EXPECT_EQ(ReadGenerationDefaults(dir.path()).temperature, 0);
  dir.Write("generation_config.json", R"({"do_sample": true})");
  EXPECT_EQ(ReadGenerationDefaults(dir.path()).temperature, 1);
  dir.Write("generation_config.json", R"({"do_sample": true, "temperature": -1})");
  ExpectError(ErrorCode::kBadInput, {"temperature is -1"},
              [&] { ReadGenerationDefaults(dir.path()); });
  dir.Write("generation_config.json", "{");
  ExpectError(ErrorCode::kBadInput, {"generation_config.json", "not valid JSON"},
              [&] { ReadGenerationDefaults(dir.path()); });
}

}  // namespace
}  // namespace mla
