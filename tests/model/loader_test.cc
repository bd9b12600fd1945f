#include "model/loader.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "support/config_edit.h"
#include "support/expect_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

constexpr const char* kGoldens[] = {"deepseek_v2_lite", "deepseek_v2", "deepseek_v3",
                                    "deepseek_v3_bias", "moonlight",   "kimi_k2"};

struct Raw {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

// A golden checkpoint taken apart, to be written again with changes.
class Model {
 public:
  explicit Model(const std::string& golden) : config_(ReadConfig(GoldenDirectory(golden))) {
    const auto checkpoint = Checkpoint::Open(GoldenDirectory(golden));
    for (const auto& [name, t] : checkpoint->tensors()) {
      std::string dtype(DTypeName(t.dtype));
      for (char& c : dtype) c = static_cast<char>(std::toupper(c));
      tensors[name] = {
          dtype, t.shape,
          std::string(reinterpret_cast<const char*>(t.data), static_cast<size_t>(t.bytes))};
    }
  }

  std::shared_ptr<const ModelWeights> Load(int extra_spaces = 0) const {
    SafetensorsBuilder builder;
    for (const auto& [name, t] : tensors) builder.Add(name, t.dtype, t.shape, t.bytes);
    dir_.Write("model.safetensors", builder.Bytes(extra_spaces));
    return LoadWeights(config_, Checkpoint::Open(dir_.path()));
  }

  ModelConfig& config() { return config_; }
  std::map<std::string, Raw> tensors;

 private:
  TempDir dir_;
  ModelConfig config_;
};

float Value(const WeightView& view, int64_t row, int64_t col) {
  const int64_t at = row * view.stride + col;
  switch (view.dtype) {
    case DType::kF32:
      return static_cast<const float*>(view.data)[at];
    case DType::kF16:
      return Fp16ToFloat(static_cast<const uint16_t*>(view.data)[at]);
    default:
      return Bf16ToFloat(static_cast<const uint16_t*>(view.data)[at]);
  }
}

void ExpectSame(const WeightView& a, const WeightView& b) {
  ASSERT_EQ(a.rows, b.rows);
  ASSERT_EQ(a.cols, b.cols);
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.cols; ++c) ASSERT_EQ(Value(a, r, c), Value(b, r, c));
  }
}

int64_t KindBytes(const ModelWeights& weights, const std::string& kind) {
  for (const WeightKind& k : weights.kinds) {
    if (k.kind == kind) return k.bytes;
  }
  return 0;
}

void CheckSums(const ModelWeights& weights) {
  int64_t bytes = 0;
  for (const WeightKind& kind : weights.kinds) bytes += kind.bytes;
  EXPECT_EQ(bytes, weights.mapped_bytes + weights.converted_bytes);
}

TEST(Loader, EveryGoldenBindsEveryField) {
  for (const char* golden : kGoldens) {
    SCOPED_TRACE(golden);
    const ModelConfig c = ReadConfig(GoldenDirectory(golden));
    const auto w = LoadWeights(c, Checkpoint::Open(GoldenDirectory(golden)));
    EXPECT_EQ(w->embedding.rows, c.vocab_size);
    EXPECT_EQ(w->lm_head.cols, c.hidden_size);
    EXPECT_NE(w->lm_head.data, w->embedding.data);
    EXPECT_NE(w->final_norm, nullptr);
    ASSERT_EQ(w->layers.size(), 3u);
    for (size_t l = 0; l < 3; ++l) {
      const LayerWeights& layer = w->layers[l];
      const MlaWeights& a = layer.attention;
      EXPECT_NE(layer.input_norm, nullptr);
      EXPECT_NE(layer.post_attention_norm, nullptr);
      EXPECT_NE(a.kv_a_norm, nullptr);
      EXPECT_EQ(a.q_proj.weight.empty(), c.attention.q_rank != 0);
      EXPECT_EQ(a.q_a.weight.empty(), c.attention.q_rank == 0);
      EXPECT_EQ(a.q_b.weight.empty(), c.attention.q_rank == 0);
      EXPECT_EQ(a.q_a_norm == nullptr, c.attention.q_rank == 0);
      EXPECT_EQ(a.kv_a.weight.rows, 64);
      EXPECT_EQ(a.kv_b.weight.rows, 6 * 44);
      EXPECT_EQ(a.o.weight.cols, 6 * 20);
      EXPECT_EQ(a.q_a.bias != nullptr, c.attention_bias);
      EXPECT_EQ(a.kv_a.bias != nullptr, c.attention_bias);
      EXPECT_EQ(a.o.bias != nullptr, c.attention_bias);
      EXPECT_EQ(a.q_b.bias, nullptr);
      EXPECT_EQ(layer.is_moe, l > 0);
      EXPECT_EQ(layer.mlp.gate.empty(), l > 0);
      if (l == 0) continue;
      EXPECT_EQ(layer.moe.router.rows, c.router.experts);
      EXPECT_EQ(layer.moe.router_bias != nullptr, c.router.has_bias);
      EXPECT_EQ(layer.moe.shared.up.rows, 24 * c.num_shared_experts);
      ASSERT_EQ(layer.moe.experts.size(), static_cast<size_t>(c.router.experts));
      for (const MlpWeights& e : layer.moe.experts) {
        EXPECT_EQ(e.gate.rows, 24);
        EXPECT_EQ(e.up.rows, 24);
        EXPECT_EQ(e.down.cols, 24);
      }
    }
    CheckSums(*w);
  }
}

TEST(Loader, EmbeddedModelIsUsedInPlace) {
  const std::string directory = std::string(MLA_MODELS) + "/stories-mla";
  const auto w = LoadWeights(ReadConfig(directory), Checkpoint::Open(directory));
  // Only the norms are converted: 6 layers x (256 + 256 + 64) + 256.
  EXPECT_EQ(w->converted_bytes, 4 * (6 * 576 + 256));
  EXPECT_EQ(KindBytes(*w, "norms"), w->converted_bytes);
  EXPECT_EQ(KindBytes(*w, "embedding"), 2 * 4096 * 256);
  CheckSums(*w);
  const MappedFile& file = w->checkpoint->files()[0];
  const auto* data = static_cast<const uint8_t*>(w->layers[3].attention.kv_b.weight.data);
  EXPECT_TRUE(data >= file.data() && data < file.data() + file.size());
}

TEST(Loader, NormsAndBiasesAreConverted) {
  const Model model("moonlight");  // its router bias is bf16
  const auto w = model.Load();
  const std::string& bias =
      model.tensors.at("model.layers.1.mlp.gate.e_score_correction_bias").bytes;
  const std::string& norm = model.tensors.at("model.norm.weight").bytes;
  for (size_t i = 0; i < 12; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bias.data() + 2 * i, 2);
    EXPECT_EQ(w->layers[1].moe.router_bias[i], Bf16ToFloat(bits));
    std::memcpy(&bits, norm.data() + 2 * i, 2);
    EXPECT_EQ(w->final_norm[i], Bf16ToFloat(bits));
  }
}

TEST(Loader, MisalignedTensorsAreCopied) {
  const Model model("deepseek_v3");
  // One of the two headers ends at an odd byte.
  const auto even = model.Load(0);
  const auto odd = model.Load(1);
  const ModelWeights& copied = even->mapped_bytes == 0 ? *even : *odd;
  const ModelWeights& mapped = even->mapped_bytes == 0 ? *odd : *even;
  EXPECT_EQ(copied.mapped_bytes, 0);
  EXPECT_GT(mapped.mapped_bytes, 500'000);
  EXPECT_EQ(copied.converted_bytes, mapped.mapped_bytes + mapped.converted_bytes);
  CheckSums(copied);
  ExpectSame(copied.layers[1].moe.experts[11].down, mapped.layers[1].moe.experts[11].down);
  ExpectSame(copied.lm_head, mapped.lm_head);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copied.lm_head.data) % 64, 0u);
}

std::string AsF32(const std::string& bf16) {
  std::string out(2 * bf16.size(), '\0');
  for (size_t i = 0; i < bf16.size() / 2; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bf16.data() + 2 * i, 2);
    const float value = Bf16ToFloat(bits);
    std::memcpy(out.data() + 4 * i, &value, 4);
  }
  return out;
}

std::string AsF16(const std::string& bf16) {
  std::string out = bf16;
  for (size_t i = 0; i < bf16.size() / 2; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bf16.data() + 2 * i, 2);
    bits = FloatToFp16(Bf16ToFloat(bits));
    std::memcpy(out.data() + 2 * i, &bits, 2);
  }
  return out;
}

TEST(Loader, MixedTypes) {
  Model model("deepseek_v3");
  const auto before = model.Load();
  Raw& router = model.tensors.at("model.layers.1.mlp.gate.weight");
  router = {"F32", router.shape, AsF32(router.bytes)};
  Raw& norm = model.tensors.at("model.layers.1.input_layernorm.weight");
  norm = {"F16", norm.shape, AsF16(norm.bytes)};
  Raw& o = model.tensors.at("model.layers.0.self_attn.o_proj.weight");
  o = {"F16", o.shape, AsF16(o.bytes)};
  Raw& head = model.tensors.at("lm_head.weight");
  head = {"F32", head.shape, AsF32(head.bytes)};
  const auto after = model.Load();
  EXPECT_EQ(after->layers[1].moe.router.dtype, DType::kF32);
  EXPECT_EQ(after->layers[0].attention.o.weight.dtype, DType::kF16);
  ExpectSame(after->layers[1].moe.router, before->layers[1].moe.router);
  ExpectSame(after->lm_head, before->lm_head);
  // bf16 -> f16 rounds what is too small for it.
  for (int i = 0; i < 72; ++i) {
    EXPECT_NEAR(after->layers[1].input_norm[i], before->layers[1].input_norm[i], 1e-3);
  }
  CheckSums(*after);
}

TEST(Loader, PackedExperts) {
  Model model("deepseek_v3");
  const auto before = model.Load();
  for (const std::string layer : {"1", "2"}) {
    Raw up = {"BF16", {12, 48, 72}, ""};
    Raw down = {"BF16", {12, 72, 24}, ""};
    for (int e = 0; e < 12; ++e) {
      const std::string prefix =
          "model.layers." + layer + ".mlp.experts." + std::to_string(e) + ".";
      up.bytes += model.tensors.at(prefix + "gate_proj.weight").bytes;
      up.bytes += model.tensors.at(prefix + "up_proj.weight").bytes;
      down.bytes += model.tensors.at(prefix + "down_proj.weight").bytes;
      for (const char* name : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
        model.tensors.erase(prefix + name);
      }
    }
    model.tensors["model.layers." + layer + ".mlp.experts.gate_up_proj"] = up;
    model.tensors["model.layers." + layer + ".mlp.experts.down_proj"] = down;
  }
  const auto after = model.Load();
  ASSERT_EQ(after->layers[2].moe.experts.size(), 12u);
  for (size_t l : {1u, 2u}) {
    for (size_t e = 0; e < 12; ++e) {
      const MlpWeights& a = after->layers[l].moe.experts[e];
      const MlpWeights& b = before->layers[l].moe.experts[e];
      ExpectSame(a.gate, b.gate);
      ExpectSame(a.up, b.up);
      ExpectSame(a.down, b.down);
    }
  }
  EXPECT_EQ(KindBytes(*after, "routed_experts"), KindBytes(*before, "routed_experts"));
  CheckSums(*after);
  model.tensors.erase("model.layers.2.mlp.experts.down_proj");
  ExpectError(ErrorCode::kBadInput,
              {"1 missing: model.layers.2.mlp.experts.down_proj [12, 72, 24]"},
              [&] { model.Load(); });
}

TEST(Loader, TiedHead) {
  Model model("deepseek_v3");
  model.config().tie_word_embeddings = true;
  const auto with_copy = model.Load();  // a stored copy is ignored
  EXPECT_EQ(with_copy->lm_head.data, with_copy->embedding.data);
  model.tensors.erase("lm_head.weight");
  const auto without = model.Load();
  EXPECT_EQ(without->lm_head.data, without->embedding.data);
  EXPECT_EQ(KindBytes(*without, "lm_head"), 0);
  CheckSums(*without);
  model.config().tie_word_embeddings = false;
  ExpectError(ErrorCode::kBadInput, {"1 missing: lm_head.weight [256, 72]"}, [&] { model.Load(); });
}

TEST(Loader, ExtraTensorsThatAreIgnored) {
  Model model("moonlight");  // has inv_freq buffers
  ASSERT_TRUE(model.tensors.contains("model.layers.0.self_attn.rotary_emb.inv_freq"));
  const auto before = model.Load();
  model.tensors["model.layers.3.eh_proj.weight"] = {"BF16", {1}, "12"};
  model.tensors["model.layers.61.shared_head.norm.weight"] = {"I8", {1}, "1"};
  const auto after = model.Load();
  EXPECT_EQ(after->mapped_bytes, before->mapped_bytes);
}

TEST(Loader, AllFaultsInOneMessage) {
  Model model("deepseek_v3");
  auto& t = model.tensors;
  t.erase("model.layers.1.self_attn.kv_b_proj.weight");
  t.erase("model.norm.weight");
  t["model.layers.2.self_attn.q_proj.weight"] = {"BF16", {1}, "12"};
  t["model.layers.02.x"] = {"BF16", {1}, "12"};
  t["strange\\u001b[2J"] = {"BF16", {1}, "12"};
  t["model.layers.0.mlp.up_proj.weight"] = {"BF16", {72, 76}, std::string(72 * 76 * 2, '\0')};
  t["model.layers.0.input_layernorm.weight"] = {"BF16", {72, 1}, std::string(144, '\0')};
  t["lm_head.weight"] = {"F8_E4M3", {256, 72}, std::string(256 * 72, '\0')};
  ExpectError(
      ErrorCode::kBadInput,
      {"config.json (deepseek_v3)", "2 missing: ", "model.norm.weight [72]",
       "model.layers.1.self_attn.kv_b_proj.weight [264, 48]", "3 unexpected: ",
       "model.layers.2.self_attn.q_proj.weight", "model.layers.02.x", "strange\\u001b[2J",
       "2 of another shape: ", "model.layers.0.mlp.up_proj.weight is [72, 76], expected [76, 72]",
       "model.layers.0.input_layernorm.weight is [72, 1], expected [72]",
       "1 of a type other than f32, f16 and bf16: lm_head.weight is f8_e4m3"},
      [&] { model.Load(); });
}

TEST(Loader, LongListsAreCut) {
  Model model("deepseek_v3");
  for (auto it = model.tensors.begin(); it != model.tensors.end();) {
    it = it->first.starts_with("model.layers.1.mlp.experts.") ? model.tensors.erase(it)
                                                              : std::next(it);
  }
  ExpectError(ErrorCode::kBadInput, {"36 missing: ", "... and 16 more"}, [&] { model.Load(); });
}

// A configuration that claims billions of tensors must not take hours or all memory.
TEST(Loader, HugeClaims) {
  Model model("deepseek_v3");
  model.config().router.experts = 65536;
  model.config().num_layers = 16384;
  model.config().is_moe.assign(16384, true);
  ExpectError(ErrorCode::kBadInput, {"missing: ", "were not looked at any more"},
              [&] { model.Load(); });
}

TEST(Loader, NonFiniteRouterBias) {
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    Model model("deepseek_v3");
    std::string& bias = model.tensors.at("model.layers.2.mlp.gate.e_score_correction_bias").bytes;
    std::memcpy(bias.data() + 4 * 7, &value, 4);
    ExpectError(
        ErrorCode::kBadInput,
        {"model.safetensors", "model.layers.2.mlp.gate.e_score_correction_bias[7] is", "finite"},
        [&] { model.Load(); });
  }
}

TEST(Loader, ShardedCheckpoint) {
  const Model model("deepseek_v2_lite");
  const auto whole = model.Load();
  TempDir dir;
  SafetensorsBuilder shards[3];
  std::string index;
  int i = 0;
  for (const auto& [name, t] : model.tensors) {
    const int shard = i++ % 3;
    shards[shard].Add(name, t.dtype, t.shape, t.bytes);
    index += fmt::format("{}\"{}\":\"m-{}.st\"", index.empty() ? "" : ",", name, shard);
  }
  for (int s = 0; s < 3; ++s) dir.Write(fmt::format("m-{}.st", s), shards[s].Bytes());
  dir.Write("model.safetensors.index.json", "{\"weight_map\":{" + index + "}}");
  const auto sharded =
      LoadWeights(ReadConfig(GoldenDirectory("deepseek_v2_lite")), Checkpoint::Open(dir.path()));
  ExpectSame(sharded->layers[2].moe.experts[9].up, whole->layers[2].moe.experts[9].up);
  ExpectSame(sharded->layers[0].attention.q_proj.weight, whole->layers[0].attention.q_proj.weight);
  CheckSums(*sharded);
}

}  // namespace
}  // namespace mla
