#include "attention/geometry.h"

#include <gtest/gtest.h>

#include "support/attention_case.h"
#include "support/expect_error.h"

namespace mla {
namespace {

constexpr MlaGeometry kV2Lite = {16, 128, 64, 128, 512, 0};
constexpr MlaGeometry kV3 = {128, 128, 64, 128, 512, 1536};

TEST(Geometry, Widths) {
  EXPECT_EQ(kV3.qk_dim(), 192);
  EXPECT_EQ(kV3.latent_dim(), 576);
  EXPECT_EQ(kV3.kv_b_rows(), 32768);
  EXPECT_EQ(kV3.decompressed_dim(), 40960);
  EXPECT_EQ(kV2Lite.fold_elements(), 2097152);
  EXPECT_EQ(kOdd.qk_dim(), 29);
  EXPECT_EQ(kOdd.latent_dim(), 47);
  EXPECT_EQ(kOdd.kv_b_rows(), 210);
}

TEST(Geometry, BytesPerTokenOfKnownModels) {
  EXPECT_EQ(DecompressedBytesPerToken(kV2Lite, Elem::kBf16), 10240);
  EXPECT_EQ(LatentBytesPerToken(kV2Lite, Elem::kBf16), 1152);
  EXPECT_EQ(DecompressedBytesPerToken(kV3, Elem::kBf16), 81920);
  EXPECT_EQ(LatentBytesPerToken(kV3, Elem::kBf16), 1152);
  EXPECT_EQ(LatentBytesPerToken(kV3, Elem::kF32), 2304);
  EXPECT_EQ(LatentBytesPerToken(kV3, Elem::kInt8), 512 + 4 + 2 * 64);
  EXPECT_EQ(DecompressedBytesPerToken(kV3, Elem::kInt8), 81920);  // bf16 beside it
  EXPECT_NEAR(10240.0 / 1152, 8.9, 0.05);
  EXPECT_NEAR(81920.0 / 1152, 71.1, 0.05);
}

TEST(Geometry, ValidateTakesEveryRealShape) {
  for (const MlaGeometry& g :
       {kV2Lite, kV3, kSmall, kOdd, MlaGeometry{20, 192, 64, 256, 512, 768},
        MlaGeometry{32, 64, 64, 128, 256, 1024}, MlaGeometry{40, 64, 32, 64, 256, 768},
        MlaGeometry{1, 1, 2, 1, 1, 0}}) {
    EXPECT_NO_THROW(g.Validate());
  }
}

TEST(Geometry, ValidateNamesTheField) {
  const struct {
    int64_t MlaGeometry::*field;
    const char* name;
  } fields[] = {
      {&MlaGeometry::heads, "num_attention_heads"}, {&MlaGeometry::nope, "qk_nope_head_dim"},
      {&MlaGeometry::rope, "qk_rope_head_dim"},     {&MlaGeometry::v_dim, "v_head_dim"},
      {&MlaGeometry::kv_rank, "kv_lora_rank"},      {&MlaGeometry::q_rank, "q_lora_rank"}};
  for (const auto& f : fields) {
    for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
      if (bad == 0 && f.field == &MlaGeometry::q_rank) continue;  // no q-LoRA
      MlaGeometry g = kV3;
      g.*f.field = bad;
      ExpectError(ErrorCode::kBadInput, {f.name, std::to_string(bad).c_str(), "expected"},
                  [&] { g.Validate(); });
    }
  }
  MlaGeometry g = kV3;
  g.rope = 63;
  ExpectError(ErrorCode::kBadInput, {"qk_rope_head_dim", "63", "even"}, [&] { g.Validate(); });
}

TEST(Geometry, ValidateFindsProductsThatOverflow) {
  MlaGeometry g = kV3;
  g.heads = g.nope = g.v_dim = g.kv_rank = 1 << 20;
  ExpectError(ErrorCode::kBadInput, {"kv_b_proj", "63 bits"}, [&] { g.Validate(); });
}

}  // namespace
}  // namespace mla
