// One query row against the oracle, by every way, type and window.
#include <cmath>

#include <gtest/gtest.h>

#include "support/attention_case.h"
#include "support/slow_isa.h"

namespace mla {
namespace {

constexpr double kF32Bound = 2e-5;

void ExpectDecode(const AttentionCase& c, const Way& way, const CaseOptions& options,
                  double bound = kF32Bound) {
  const std::vector<float> got = RunCase(c, way, options);
  const OracleResult want = c.Want(way.layout, options.type);
  EXPECT_LT(RelativeError(got, want.out), bound)
      << way.name << " window " << c.length << " type " << static_cast<int>(options.type)
      << " first " << options.first_position << " chunk " << options.split_chunk;
}

// Lengths around the tile and around the segment, which is also the shortest chunk of a split.
std::vector<int64_t> Windows() {
  std::vector<int64_t> windows = {1, 2};
  for (const int64_t block : {kAttendTileRows, KvCache::kSegmentTokens}) {
    for (const int64_t length : {block - 1, block, block + 1, 2 * block, 3 * block + 7}) {
      windows.push_back(length);
    }
  }
  return windows;
}

TEST(Decode, F32EveryWindow) {
  for (const MlaGeometry& g : {kSmall, kOdd}) {
    for (const int64_t window : Windows()) {
      const AttentionCase c(g, window, 1, static_cast<uint64_t>(window));
      for (const Way& way : kAllWays) ExpectDecode(c, way, {});
      for (const int64_t chunk : {64, 100}) ExpectDecode(c, kSplitWay, {.split_chunk = chunk});
      ExpectDecode(c, kComposedWay, {.kernels = &ReferenceKernels()});
    }
  }
}

// The window need not start at a tile or chunk.
TEST(Decode, F32AnyFirstPosition) {
  for (const int64_t first : {1, 63, 64, 100, 255, 256, 1000, 100001}) {
    for (const int64_t window : {1, 64, 65, 200, 519}) {
      const AttentionCase c(kSmall, window, 1, static_cast<uint64_t>(first + window));
      for (const Way& way : kAllWays) ExpectDecode(c, way, {.first_position = first});
      ExpectDecode(c, kSplitWay, {.split_chunk = 64, .first_position = first});
    }
  }
}

TEST(Decode, ForcedChunksOfThirtySevenRows) {
  for (const MlaGeometry& g : {kSmall, kOdd}) {
    const AttentionCase c(g, 37, 1, 5);
    for (const int64_t chunk : {1, 8, 16, 37, 64}) {
      for (const Elem type : kAllElems) {
        ExpectDecode(c, kSplitWay, {.type = type, .split_chunk = chunk});
        ExpectDecode(c, kSplitWay, {.type = type, .split_chunk = chunk, .first_position = 250});
      }
    }
  }
}

// Two bounds for 16-bit caches. What the rounding of stored elements costs: some units of that
// rounding (measured: up to 1.6), and never 6e-3. What everything else costs: no more than in fp32.
TEST(Decode, SixteenBitCaches) {
  for (const MlaGeometry& g : {kSmall, kOdd}) {
    for (const int64_t window : {1, 37, 64, 199, 775}) {
      const AttentionCase c(g, window, 1, static_cast<uint64_t>(window) + 70);
      for (const Way& way : kAllWays) {
        const std::vector<double> exact = c.Want(way.layout, Elem::kF32).out;
        for (const Elem type : {Elem::kF16, Elem::kBf16}) {
          ExpectDecode(c, way, {.type = type});
          const double unit = type == Elem::kF16 ? kRoundF16 : kRoundBf16;
          const double error = RelativeError(RunCase(c, way, {.type = type}), exact);
          EXPECT_LT(error, 2.5 * unit) << way.name << " window " << window;
          EXPECT_LT(error, 6e-3);
          EXPECT_GT(error, unit / 100) << "the cache is not of this type";
        }
      }
    }
  }
}

struct Shape {
  const char* name;
  MlaGeometry geometry;
};
// Widths of released models with fewer heads.
constexpr Shape kShapes[] = {{"DeepSeek-V2-Lite", {3, 128, 64, 128, 512, 0}},
                             {"GLM-4.7-Flash", {2, 192, 64, 256, 512, 768}},
                             {"Mistral 4", {5, 64, 64, 128, 256, 1024}},
                             {"MiniCPM3", {7, 64, 32, 64, 256, 768}}};

TEST(Decode, ShapesOfReleasedModels) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.name);
    for (const Elem weights : {Elem::kBf16, Elem::kF16}) {
      const AttentionCase c(shape.geometry, weights == Elem::kBf16 ? 130 : 30, 1, 6, weights);
      for (const Way& way : kAllWays) {
        ExpectDecode(c, way, {});
        ExpectDecode(c, way, {.type = Elem::kBf16});
      }
      ExpectDecode(c, kSplitWay, {.type = Elem::kBf16, .split_chunk = 64});
    }
  }
}

// DeepSeek-V3's 128 heads make several groups of rows per tile.
TEST(Decode, ManyHeads) {
  for (const int64_t heads : {16, 20, 33, 128}) {
    const MlaGeometry g = {heads, 6, 4, 5, 12, 0};
    const AttentionCase c(g, 130, 1, 7);
    for (const Way& way : kAllWays) ExpectDecode(c, way, {});
    ExpectDecode(c, kSplitWay, {.split_chunk = 64});
  }
}

TEST(Decode, AHundredThousandTokens) {
  const MlaGeometry g = {2, 6, 2, 5, 9, 0};
  const AttentionCase c(g, SlowIsa() ? 20003 : 100003, 1, 8);
  for (const Way& way : kAllWays) {
    ExpectDecode(c, way, {});
    ExpectDecode(c, way, {.type = Elem::kBf16});
  }
}

// Rows of exact small numbers such that key `at` has the score `score` and all others -score.
AttentionCase Dominant(int64_t at, float score) {
  AttentionCase c(kSmall, 200, 1, 9);
  const MlaGeometry& g = c.geometry;
  // The rotated part alone carries the score, so that latents stay ordinary values.
  for (int64_t i = 0; i < c.length; ++i) {
    for (int64_t x = 0; x < g.rope; ++x) {
      const bool first = x == 0;
      c.latent[static_cast<size_t>(i * g.latent_dim() + g.kv_rank + x)] =
          first ? (i == at ? 128.0f : -128.0f) : 0.0f;
    }
  }
  // Exact in fp32, so that the keys that share the weight share it evenly.
  for (int64_t h = 0; h < g.heads; ++h) {
    for (int64_t x = 0; x < g.qk_dim(); ++x) {
      float& q = c.q[static_cast<size_t>(h * g.qk_dim() + x)];
      q = x == g.nope ? score / 128 : 0;
    }
  }
  return c;
}

TEST(Decode, OneDominantKeyAndExtremeScores) {
  for (const int64_t at : {0, 63, 64, 150, 199}) {
    for (const float score : {40.0f, 1e4f, -1e4f}) {
      const AttentionCase c = Dominant(at, score);
      for (const Way& way : kAllWays) {
        for (const Elem type : kAllElems) {
          // A partial's log-sum-exp is one fp32: with scores of 1e4 the weights of the chunks are
          // known to its rounding.
          const double lse = std::abs(score) * kLog2E * kRoundF32;
          const bool merges = way.mode == DecodeMode::kSplitKv;
          ExpectDecode(c, way, {.type = type}, kF32Bound + (merges ? 2 * lse : 0));
          ExpectDecode(c, way, {.type = type, .split_chunk = 64}, kF32Bound + 2 * lse);
        }
      }
      if (score < 0) continue;
      // All of the weight is on that one key: the output is its value.
      AttentionCase alone = c;
      alone.latent.assign(c.latent.begin() + at * c.geometry.latent_dim(),
                          c.latent.begin() + (at + 1) * c.geometry.latent_dim());
      alone.length = 1;
      const auto want = alone.Want(CacheLayout::kLatent, Elem::kF32).out;
      EXPECT_LT(RelativeError(RunCase(c, kSplitWay, {.split_chunk = 64}), want), kF32Bound);
    }
  }
}

// Scores spread over ±1e4 through all of the operands. A score of 1e4 has an error of 1e4
// roundings, so the bound follows from fp32 itself.
TEST(Decode, ScoresSpreadFarOut) {
  AttentionCase c(kSmall, 150, 1, 10);
  for (float& q : c.q) q *= 4e3f;
  const OracleResult want = c.Want(CacheLayout::kLatent, Elem::kF32);
  double largest = 0;
  for (const double lse : want.lse2) largest = std::max(largest, std::abs(lse));
  ASSERT_GT(largest, 1e4);
  for (const Way& way : kAllWays) {
    ExpectDecode(c, way, {}, 4 * largest * kRoundF32);
    ExpectDecode(c, way, {.split_chunk = 64}, 4 * largest * kRoundF32);
  }
}

TEST(Decode, EqualKeysGiveTheMean) {
  for (const float value : {0.0f, 0.7f, -300.0f}) {
    AttentionCase c(kOdd, 330, 1, 11);
    // Equal scores, different values: the nope part of q is zero.
    for (int64_t h = 0; h < c.geometry.heads; ++h) {
      std::fill_n(c.q.begin() + h * c.geometry.qk_dim(), c.geometry.nope, 0.0f);
    }
    for (int64_t i = 0; i < c.length; ++i) {
      const auto row = c.latent.begin() + i * c.geometry.latent_dim();
      std::fill(row + c.geometry.kv_rank, row + c.geometry.latent_dim(), value);
    }
    for (const Way& way : kAllWays) ExpectDecode(c, way, {});
    ExpectDecode(c, kSplitWay, {.split_chunk = 37});
    // Equal latents as well: the output is that one value.
    for (int64_t i = 1; i < c.length; ++i) {
      std::copy_n(c.latent.begin(), c.geometry.latent_dim(),
                  c.latent.begin() + i * c.geometry.latent_dim());
    }
    for (const Way& way : kAllWays) ExpectDecode(c, way, {});
  }
}

}  // namespace
}  // namespace mla
