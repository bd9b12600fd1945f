// NaN in a weight: found at the first forward pass, by name, and nothing of the session is lost.
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "io/checkpoint.h"
#include "mla/engine.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

const std::string kGolden = std::string(MLA_TEST_DATA) + "/goldens/deepseek_v3";

// A copy of the checkpoint in which element 0 of `tensor` (bf16) is NaN.
void CopyWithNaN(const TempDir& dir, const std::string& tensor) {
  std::string bytes = ReadWholeFile(kGolden + "/model.safetensors");
  const auto checkpoint = Checkpoint::Open(kGolden);
  const StoredTensor* stored = checkpoint->Find(tensor);
  ASSERT_NE(stored, nullptr) << tensor;
  ASSERT_EQ(stored->dtype, DType::kBf16);
  const uint16_t nan = 0x7fc0;
  std::memcpy(bytes.data() + (stored->data - checkpoint->files()[0].data()), &nan, sizeof nan);
  dir.Write("model.safetensors", bytes);
  dir.Write("config.json", ReadWholeFile(kGolden + "/config.json"));
}

TEST(Damage, NaNNamesItsLayer) {
  const struct {
    const char* tensor;
    const char* message;
  } cases[] = {
      {"model.layers.0.self_attn.q_a_proj.weight", "layer 0 (self_attn)"},
      {"model.layers.0.self_attn.q_a_layernorm.weight", "layer 0 (self_attn)"},
      {"model.layers.1.self_attn.q_b_proj.weight", "layer 1 (self_attn)"},
      {"model.layers.1.self_attn.kv_a_proj_with_mqa.weight", "layer 1 (self_attn)"},
      {"model.layers.2.self_attn.kv_b_proj.weight", "layer 2 (self_attn)"},
      {"model.layers.2.self_attn.o_proj.weight", "layer 2 (self_attn)"},
      {"model.layers.0.mlp.down_proj.weight", "layer 0 (mlp)"},
      {"model.layers.1.mlp.gate.weight", "layer 1 (mlp)"},
      {"model.layers.1.mlp.shared_experts.up_proj.weight", "layer 1 (mlp)"},
      {"model.layers.2.post_attention_layernorm.weight", "layer 2 (mlp)"},
      {"model.norm.weight", "model.norm.weight"},
      {"lm_head.weight", "lm_head.weight"},
  };
  for (const auto& c : cases) {
    const TempDir dir;
    CopyWithNaN(dir, c.tensor);
    const Model model = Model::Load(dir.path(), {.threads = 2});
    for (const Attention a :
         {Attention::kDecompressed, Attention::kAbsorbed, Attention::kSplitKv}) {
      SCOPED_TRACE(std::string(c.tensor) + " " + AttentionName(a));
      // In one pass, and token by token (decode kernels).
      for (const int64_t chunk : {16, 1}) {
        Session session(model, {.attention = a, .prefill_chunk = chunk});
        const std::vector<int32_t> ids = {3, 1, 4, 1, 5};
        ExpectError(ErrorCode::kNumeric, {c.message, "NaN"}, [&] { session.Feed(ids); });
        EXPECT_TRUE(session.logits().empty());
      }
    }
  }
}

TEST(Damage, NaNInAnEmbeddingRowOnlyHurtsItsToken) {
  const TempDir dir;
  CopyWithNaN(dir, "model.embed_tokens.weight");  // row 0
  const Model model = Model::Load(dir.path(), {.threads = 1});
  Session session(model, {.attention = Attention::kAbsorbed});
  const std::vector<int32_t> good = {1, 2, 3};
  const std::vector<int32_t> bad = {4, 0};
  session.Feed(good);
  ExpectError(ErrorCode::kNumeric, {"model.embed_tokens.weight"}, [&] { session.Feed(bad); });
  EXPECT_EQ(session.position(), 3);  // what was there before is still there
  session.Feed(good);
  EXPECT_EQ(session.position(), 6);
}

}  // namespace
}  // namespace mla
