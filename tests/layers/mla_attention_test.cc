#include "layers/mla_attention.h"

#include <gtest/gtest.h>

#include "layer_case.h"

namespace mla {
namespace {

constexpr int64_t kHidden = 44;
// With and without q-LoRA.
constexpr MlaGeometry kGeometries[] = {kSmall, {5, 23, 6, 19, 41, 17}};

std::vector<float> FeedInChunks(LayerRunner& runner, const std::vector<float>& x, int64_t chunk) {
  std::vector<float> out;
  const int64_t rows = static_cast<int64_t>(x.size()) / kHidden;
  for (int64_t i = 0; i < rows; i += chunk) {
    const int64_t end = std::min(rows, i + chunk);
    const auto part = runner.Feed({x.begin() + i * kHidden, x.begin() + end * kHidden});
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

TEST(MlaAttention, EveryWayIsTheBlockInDouble) {
  for (const MlaGeometry& g : kGeometries) {
    for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalfSplit}) {
      for (const Elem weights : {Elem::kF32, Elem::kBf16}) {
        LayerCase c(g, kHidden, style, weights, 1);
        const auto x = c.random.Normals(120 * kHidden);
        const auto want = c.Want(x);
        for (const Way& way : kAllWays) {
          for (const int64_t chunk : {1, 7, 120}) {
            LayerRunner runner(c, way, Elem::kF32);
            EXPECT_LT(RelativeError(FeedInChunks(runner, x, chunk), want), 2e-5)
                << way.name << " chunk " << chunk << " heads " << g.heads;
          }
        }
      }
    }
  }
}

TEST(MlaAttention, DecompressedIsAbsorbed) {
  LayerCase c(kGeometries[1], kHidden, RopeStyle::kInterleaved, Elem::kBf16, 2);
  const auto x = c.random.Normals(150 * kHidden);
  LayerRunner decompressed(c, kDecompressedWay, Elem::kF32);
  const auto want = FeedInChunks(decompressed, x, 50);
  for (const Way& way : {kComposedWay, kSplitWay}) {
    for (const int64_t chunk : {1, 50, 150}) {
      LayerRunner runner(c, way, Elem::kF32);
      EXPECT_LT(RelativeError(FeedInChunks(runner, x, chunk), want), 1e-5)
          << way.name << " chunk " << chunk;
    }
  }
}

TEST(MlaAttention, SixteenBitCachesStayClose) {
  LayerCase c(kSmall, kHidden, RopeStyle::kInterleaved, Elem::kF32, 3);
  const auto x = c.random.Normals(100 * kHidden);
  const auto want = c.Want(x);
  for (const Way& way : kAllWays) {
    for (const Elem type : {Elem::kF16, Elem::kBf16}) {
      LayerRunner runner(c, way, type);
      const double error = RelativeError(FeedInChunks(runner, x, 10), want);
      EXPECT_LT(error, 6e-3) << way.name;
      EXPECT_GT(error, 1e-5) << "the cache is not of this type";
    }
  }
}

TEST(MlaAttention, ThreadsDoNotMatter) {
  LayerCase c(kGeometries[1], kHidden, RopeStyle::kHalfSplit, Elem::kBf16, 4);
  const auto x = c.random.Normals(70 * kHidden);
  for (const Way& way : kAllWays) {
    LayerRunner one(c, way, Elem::kBf16, 1);
    const auto want = FeedInChunks(one, x, 3);
    for (const int threads : {2, 3, 7}) {
      LayerRunner many(c, way, Elem::kBf16, threads);
      EXPECT_TRUE(SameBits(FeedInChunks(many, x, 3), want)) << way.name << " " << threads;
    }
  }
}

TEST(MlaAttention, CountsOneCallPerStep) {
  LayerCase c(kSmall, kHidden, RopeStyle::kInterleaved, Elem::kF32, 5);
  const auto x = c.random.Normals(10 * kHidden);
  LayerRunner runner(c, kSplitWay, Elem::kF32);
  FeedInChunks(runner, x, 4);  // 4 + 4 + 2 rows
  FeedInChunks(runner, {x.begin(), x.begin() + 3 * kHidden}, 1);
  EXPECT_EQ(runner.stats.counts, (std::array<int64_t, 4>{0, 3, 0, 3}));
}

}  // namespace
}  // namespace mla
