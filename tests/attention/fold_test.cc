#include "attention/fold.h"

#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace mla {
namespace {

// Element (i, j) of a view.
double At(const WeightView& w, int64_t i, int64_t j) {
  const int64_t at = i * w.stride + j;
  switch (w.dtype) {
    case DType::kF32:
      return static_cast<const float*>(w.data)[at];
    case DType::kF16:
      return Fp16ToFloat(static_cast<const uint16_t*>(w.data)[at]);
    default:
      return Bf16ToFloat(static_cast<const uint16_t*>(w.data)[at]);
  }
}

TEST(Fold, EveryElementLandsWhereItBelongs) {
  for (const MlaGeometry& g : {kSmall, kOdd}) {
    for (const Elem type : kAllElems) {
      Random random(1);
      const StoredMatrix kv_b = StoredMatrix::Normal(random, g.kv_b_rows(), g.kv_rank, type, 1, 7);
      const LayerFold fold = BuildFold(g, {ViewOf(kv_b), nullptr});
      ASSERT_TRUE(fold.folded()) << fold.decline;
      EXPECT_EQ(fold.extra_bytes, 0);
      int64_t elements = 0;
      for (int64_t h = 0; h < g.heads; ++h) {
        const WeightView uk = fold.Uk(g, h);
        const WeightView uv = fold.Uv(g, h);
        ASSERT_EQ(uk.rows, g.nope);
        ASSERT_EQ(uv.rows, g.v_dim);
        ASSERT_EQ(uk.cols, g.kv_rank);
        ASSERT_EQ(uv.cols, g.kv_rank);
        for (int64_t x = 0; x < g.kv_rank; ++x) {
          for (int64_t i = 0; i < g.nope; ++i) {
            ASSERT_EQ(At(uk, i, x), kv_b.At(h * (g.nope + g.v_dim) + i, x));
          }
          for (int64_t i = 0; i < g.v_dim; ++i) {
            ASSERT_EQ(At(uv, i, x), kv_b.At(h * (g.nope + g.v_dim) + g.nope + i, x));
          }
        }
        elements += (uk.rows + uv.rows) * uk.cols;
      }
      EXPECT_EQ(elements, g.fold_elements()) << "a partition: nothing twice, nothing left over";
    }
  }
}

TEST(Fold, DeclinesWithTheReason) {
  Random random(2);
  const MlaGeometry& g = kSmall;
  const StoredMatrix kv_b = StoredMatrix::Normal(random, g.kv_b_rows(), g.kv_rank, Elem::kF32);
  const std::vector<float> bias(static_cast<size_t>(g.kv_b_rows()));
  const auto expect = [&](const Linear& linear, std::initializer_list<const char*> parts) {
    const LayerFold fold = BuildFold(g, linear);
    EXPECT_FALSE(fold.folded());
    for (const char* part : parts) {
      EXPECT_NE(fold.decline.find(part), std::string::npos)
          << part << " is not in: " << fold.decline;
    }
  };
  expect({ViewOf(kv_b), bias.data()}, {"kv_b_proj", "bias"});
  expect({}, {"no kv_b_proj"});
  WeightView view = ViewOf(kv_b);
  view.rows -= 1;
  expect({view, nullptr}, {"[111, 32]", "[112, 32]"});
  view = ViewOf(kv_b);
  view.cols = 31;
  expect({view, nullptr}, {"[112, 31]", "[112, 32]"});
  for (const DType dtype : {DType::kF8E4M3, DType::kI8, DType::kF64, DType::kI32}) {
    view = ViewOf(kv_b);
    view.dtype = dtype;
    expect({view, nullptr}, {std::string(DTypeName(dtype)).c_str(), "expected f32, f16 or bf16"});
  }
  EXPECT_FALSE(LayerFold().folded()) << "nothing built yet";
}

// With the switch off the layer's fold is there or not, and nothing changes.
TEST(Fold, DecompressedAttentionDoesNotLookAtIt) {
  const AttentionCase c(kOdd, 70, 3, 3);
  const auto cache = MakeCache(c, CacheLayout::kDecompressed, Elem::kBf16);
  AttentionRunner runner(c.geometry, CacheLayout::kDecompressed);
  const std::vector<AttentionItem> items = {{cache.get(), 0, c.rows, c.length - c.rows}};
  const auto with = runner.Run(c.Fold(), c.q, items, DecodeMode::kComposed);
  const auto without = runner.Run(LayerFold(), c.q, items, DecodeMode::kComposed);
  ASSERT_TRUE(Finite(with));
  EXPECT_TRUE(SameBits(with, without));
  const auto split = runner.Run(LayerFold(), c.q, items, DecodeMode::kSplitKv);
  EXPECT_TRUE(SameBits(with, split)) << "SPLIT without ABSORBED does nothing";
}

}  // namespace
}  // namespace mla
