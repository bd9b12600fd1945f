// Several query rows at once: prefill, chunked prefill, verify steps.
#include <gtest/gtest.h>

#include "support/attention_case.h"
#include "support/slow_isa.h"

namespace mla {
namespace {

// Row counts on both sides of the limit below which a step runs absorbed.
TEST(Causal, RowsMatchTheOracle) {
  for (const MlaGeometry& g : {kSmall, kOdd}) {
    const int64_t limit = AbsorbedRowLimit(g);
    for (const int64_t rows : {int64_t{2}, int64_t{3}, int64_t{17}, limit, limit + 1, int64_t{90},
                               int64_t{SlowIsa() ? 130 : 300}}) {
      for (const int64_t before : {0, 63, 200}) {
        const AttentionCase c(g, rows + before, rows, static_cast<uint64_t>(rows + before));
        for (const Way& way : {kDecompressedWay, kComposedWay}) {
          for (const int64_t first : {0, 77}) {
            const auto got = RunCase(c, way, {.first_position = first});
            const auto want = c.Want(way.layout, Elem::kF32);
            EXPECT_LT(RelativeError(got, want.out), 2e-5)
                << way.name << " rows " << rows << " after " << before << " first " << first;
          }
        }
        const auto got = RunCase(c, kComposedWay, {.type = Elem::kBf16});
        EXPECT_LT(RelativeError(got, c.Want(CacheLayout::kLatent, Elem::kBf16).out), 2e-5);
      }
    }
  }
}

// Positive control: without the mask the same rows come out otherwise, all but the last.
TEST(Causal, TheMaskMatters) {
  for (const int64_t rows : {5, 90}) {
    const AttentionCase c(kSmall, rows + 20, rows, 3);
    const size_t width = static_cast<size_t>(c.geometry.heads * c.geometry.v_dim);
    for (const Way& way : {kDecompressedWay, kComposedWay}) {
      const auto got = RunCase(c, way);
      const auto unmasked = c.Want(way.layout, Elem::kF32, false).out;
      for (int64_t i = 0; i < rows; ++i) {
        const auto at = static_cast<int64_t>(static_cast<size_t>(i) * width);
        const std::vector<float> row(got.begin() + at,
                                     got.begin() + at + static_cast<int64_t>(width));
        const std::vector<double> other(unmasked.begin() + at,
                                        unmasked.begin() + at + static_cast<int64_t>(width));
        if (i + 1 < rows) {
          EXPECT_GT(RelativeError(row, other), 1e-3) << way.name << " row " << i;
        } else {
          EXPECT_LT(RelativeError(row, other), 2e-5) << way.name << " last row";
        }
      }
    }
  }
}

// Runs the case's rows in chunks, each written to the cache just before it is served.
std::vector<float> RunChunked(const AttentionCase& c, const Way& way, int64_t chunk,
                              AttentionRunner& runner, Elem type) {
  const MlaGeometry& g = c.geometry;
  KvCache cache(g, kCaseLayers, way.layout, type, c.length);
  std::vector<float> out;
  for (int64_t first = 0; first < c.length; first += chunk) {
    const int64_t count = std::min(chunk, c.length - first);
    cache.Extend(count);
    WriteRows(cache, g, kCaseLayer, first, c.kv_b.values(),
              {c.latent.begin() + first * g.latent_dim(),
               c.latent.begin() + (first + count) * g.latent_dim()});
    const std::vector<float> q(c.q.begin() + first * g.heads * g.qk_dim(),
                               c.q.begin() + (first + count) * g.heads * g.qk_dim());
    const auto part = runner.Run(c.Fold(), q, {{&cache, 0, count, first}}, way.mode);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

TEST(Causal, ChunkedPrefillIsOneShotPrefill) {
  const int64_t length = SlowIsa() ? 300 : 700;
  const AttentionCase c(kSmall, length, length, 4);
  for (const Way& way : kAllWays) {
    for (const Elem type : {Elem::kF32, Elem::kBf16}) {
      AttentionRunner runner(c.geometry, way.layout);
      const auto whole = RunChunked(c, way, length, runner, type);
      EXPECT_LT(RelativeError(whole, c.Want(way.layout, type).out), 2e-5);
      for (const int64_t chunk : {1, 7, 64, 512}) {
        EXPECT_LT(RelativeError(RunChunked(c, way, chunk, runner, type), whole), 4e-6)
            << way.name << " chunk " << chunk;
      }
    }
  }
}

// A draft of four tokens on top of a long window, rejected and tried again.
TEST(Causal, VerifyStepAfterTrim) {
  const AttentionCase c(kOdd, 270, 4, 5);
  for (const Way& way : {kDecompressedWay, kComposedWay}) {
    const auto cache = MakeCache(c, way.layout, Elem::kF32);
    AttentionRunner runner(c.geometry, way.layout);
    const std::vector<AttentionItem> items = {{cache.get(), 0, 4, 266}};
    const auto first = runner.Run(c.Fold(), c.q, items, way.mode);
    cache->Trim(4);
    cache->Extend(4);
    FillRows(*cache, c.geometry, kCaseLayers, 266, 4, kNaN);
    const std::vector<float> again(c.latent.begin() + 266 * c.geometry.latent_dim(),
                                   c.latent.end());
    WriteRows(*cache, c.geometry, kCaseLayer, 266, c.kv_b.values(), again);
    EXPECT_TRUE(SameBits(runner.Run(c.Fold(), c.q, items, way.mode), first)) << way.name;
  }
}

TEST(Causal, AbsorbedRowLimit) {
  // Rk(n+v) / (2Rk-n-v), at most 64 and at least 1.
  EXPECT_EQ(AbsorbedRowLimit({128, 128, 64, 128, 512, 0}), 64);  // 170 on paper
  EXPECT_EQ(AbsorbedRowLimit(kSmall), 32 * 28 / (64 - 28));
  EXPECT_EQ(AbsorbedRowLimit({4, 1, 2, 1, 64, 0}), 1);
  EXPECT_EQ(AbsorbedRowLimit({4, 64, 2, 64, 32, 0}), 64);  // absorbing always saves
}

}  // namespace
}  // namespace mla
