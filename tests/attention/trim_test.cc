// Attention over caches that were trimmed.
#include <gtest/gtest.h>

#include "support/attention_case.h"
#include "support/slow_isa.h"

namespace mla {
namespace {

// The last `keep` rows of the case as a case of its own.
AttentionCase Tail(const AttentionCase& c, int64_t keep) {
  AttentionCase tail = c;
  tail.latent.assign(c.latent.end() - keep * c.geometry.latent_dim(), c.latent.end());
  tail.length = keep;
  return tail;
}

TEST(Trim, DecodeAfterTrimFrontIsAFreshCacheAtTheSamePositions) {
  for (const Way& way : kAllWays) {
    for (const Elem type : {Elem::kF32, Elem::kBf16}) {
      for (const int64_t dropped : {1, 64, 200, 256, 300, 599}) {
        if (SlowIsa() && (dropped == 200 || dropped == 300)) continue;
        for (const int64_t rows : {1, 5, SlowIsa() ? 20 : 70}) {
          const AttentionCase c(kOdd, 600, rows, 1);
          if (dropped + rows > 600) continue;
          const auto cache = MakeCache(c, way.layout, type);
          ASSERT_EQ(cache->TrimFront(dropped), dropped);
          AttentionRunner runner(c.geometry, way.layout);
          const auto got =
              runner.Run(c.Fold(), c.q, {{cache.get(), 0, rows, 600 - rows}}, way.mode);
          const AttentionCase tail = Tail(c, 600 - dropped);
          const auto fresh = RunCase(tail, way, {.type = type, .first_position = dropped});
          EXPECT_TRUE(SameBits(got, fresh)) << way.name << " dropped " << dropped;
          EXPECT_LT(RelativeError(got, tail.Want(way.layout, type).out), 2e-5);
        }
      }
    }
  }
}

TEST(Trim, DecodeAfterTrimIsTheShorterWindow) {
  for (const Way& way : kAllWays) {
    const AttentionCase whole(kSmall, 400, 1, 2);
    for (const int64_t dropped : {1, 44, 144, 200, 399}) {
      AttentionCase head = whole;
      head.length = 400 - dropped;
      head.latent.resize(static_cast<size_t>(head.length * head.geometry.latent_dim()));
      const auto cache = MakeCache(whole, way.layout, Elem::kF32);
      cache->Trim(dropped);
      AttentionRunner runner(whole.geometry, way.layout);
      const auto got =
          runner.Run(whole.Fold(), whole.q, {{cache.get(), 0, 1, cache->offset() - 1}}, way.mode);
      EXPECT_TRUE(SameBits(got, RunCase(head, way))) << way.name << " dropped " << dropped;
    }
  }
}

TEST(Trim, ScratchDoesNotGrowWithTheContext) {
  // Sizes are asked for without a context; what a long window then uses is within them (the
  // sanitizer run watches), and partials are bounded whatever the window.
  const AttentionWorkspace workspace(kSmall, CacheLayout::kLatent, 1);
  const int64_t before = workspace.bytes();
  EXPECT_GT(before, 0);
  EXPECT_EQ(AttentionWorkspace(kSmall, CacheLayout::kDecompressed, 1).bytes(), 0);
  const int64_t window = SlowIsa() ? 20000 : 131072;
  const AttentionCase c(kSmall, window, 1, 3);
  const auto cache = MakeCache(c, CacheLayout::kLatent, Elem::kF32);
  OpHarness harness(2, AnyScratchFloats(kSmall, CacheLayout::kLatent));
  AttentionWorkspace used(kSmall, CacheLayout::kLatent, 1);
  const int64_t scratch = harness.context.scratch.bytes();
  std::vector<float> out(static_cast<size_t>(kSmall.heads * kSmall.v_dim));
  const std::vector<AttentionItem> items = {{cache.get(), 0, 1, window - 1}};
  const LayerFold fold = c.Fold();
  PathStats stats;
  AttentionCall call;
  call.geometry = &kSmall;
  call.fold = &fold;
  call.layer = kCaseLayer;
  call.q = c.q.data();
  call.out = out.data();
  call.items = items;
  call.policy = DecodeMode::kSplitKv;
  call.stats = &stats;
  for (const bool deterministic : {false, true}) {
    call.policy.deterministic = deterministic;
    RunAttention(harness.context, used, call);
  }
  EXPECT_EQ(used.bytes(), before);
  EXPECT_EQ(harness.context.scratch.bytes(), scratch);
}

}  // namespace
}  // namespace mla
