#include "attention/stats.h"

#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace mla {
namespace {

using Counts = std::array<int64_t, 4>;

TEST(Stats, LabelsInOrder) {
  ASSERT_EQ(kAttentionPathNames.size(), 4u);
  EXPECT_EQ(kAttentionPathNames[static_cast<size_t>(AttentionPath::kDecompressed)], "decompressed");
  EXPECT_EQ(kAttentionPathNames[1], "absorbed_prefill");
  EXPECT_EQ(kAttentionPathNames[static_cast<size_t>(AttentionPath::kAbsorbedPrefill)],
            "absorbed_prefill");
  EXPECT_EQ(kAttentionPathNames[static_cast<size_t>(AttentionPath::kAbsorbedComposed)],
            "absorbed_composed");
  EXPECT_EQ(kAttentionPathNames[static_cast<size_t>(AttentionPath::kAbsorbedSplitKv)],
            "absorbed_split_kv");
  EXPECT_EQ(static_cast<size_t>(AttentionPath::kAbsorbedSplitKv), 3u);
}

// Runs one call with items of these row counts on windows of these lengths.
void Call(AttentionRunner& runner, CacheLayout layout, DecodeMode mode,
          const std::vector<std::pair<int64_t, int64_t>>& rows_and_windows) {
  std::vector<std::unique_ptr<KvCache>> caches;
  std::vector<AttentionItem> items;
  std::vector<float> q;
  LayerFold fold;
  static const AttentionCase weights(kSmall, 1, 1, 1);
  for (const auto& [rows, window] : rows_and_windows) {
    const AttentionCase c(kSmall, window, rows, 1);
    caches.push_back(MakeCache(c, layout, Elem::kF32));
    items.push_back({caches.back().get(),
                     static_cast<int64_t>(q.size()) / (kSmall.heads * kSmall.qk_dim()), rows,
                     window - rows});
    q.insert(q.end(), c.q.begin(), c.q.end());
  }
  runner.Run(weights.Fold(), q, items, mode);
}

TEST(Stats, ExactCountsPerPath) {
  const int64_t many = AbsorbedRowLimit(kSmall) + 1;
  AttentionRunner plain(kSmall, CacheLayout::kDecompressed);
  EXPECT_EQ(plain.stats.counts, (Counts{0, 0, 0, 0}));
  for (const DecodeMode mode : {DecodeMode::kComposed, DecodeMode::kSplitKv, DecodeMode::kAuto}) {
    Call(plain, CacheLayout::kDecompressed, mode, {{1, 40}});
    Call(plain, CacheLayout::kDecompressed, mode, {{5, 40}});
  }
  EXPECT_EQ(plain.stats.counts, (Counts{6, 0, 0, 0}));

  AttentionRunner latent(kSmall, CacheLayout::kLatent);
  const auto call = [&](DecodeMode mode, std::vector<std::pair<int64_t, int64_t>> items) {
    Call(latent, CacheLayout::kLatent, mode, items);
    return latent.stats.counts;
  };
  EXPECT_EQ(call(DecodeMode::kComposed, {{1, 700}}), (Counts{0, 0, 1, 0}));
  EXPECT_EQ(call(DecodeMode::kSplitKv, {{1, 700}}), (Counts{0, 0, 1, 1}));
  EXPECT_EQ(call(DecodeMode::kSplitKv, {{1, 1}}), (Counts{0, 0, 1, 2})) << "one chunk is split-KV";
  EXPECT_EQ(call(DecodeMode::kSplitKv, {{2, 700}}), (Counts{0, 1, 1, 2})) << "few rows";
  EXPECT_EQ(call(DecodeMode::kSplitKv, {{many, 700}}), (Counts{0, 2, 1, 2})) << "many rows";
  EXPECT_EQ(latent.stats[AttentionPath::kAbsorbedPrefill], 2);
  // One call counts once, however many sequences.
  EXPECT_EQ(call(DecodeMode::kComposed, {{1, 9}, {1, 70}, {1, 300}}), (Counts{0, 2, 2, 2}));
  // And once for each path that its sequences took.
  EXPECT_EQ(call(DecodeMode::kSplitKv, {{1, 9}, {3, 70}, {many, 300}, {1, 9}}),
            (Counts{0, 3, 2, 3}));
  // No rows, no call.
  EXPECT_EQ(call(DecodeMode::kComposed, {}), (Counts{0, 3, 2, 3}));
  latent.stats.Reset();
  EXPECT_EQ(latent.stats.counts, (Counts{0, 0, 0, 0}));
}

TEST(Stats, AutoTakesExactlyOnePathPerStep) {
  AttentionRunner runner(kSmall, CacheLayout::kLatent);
  for (const int64_t window : {1, 100, 1500}) {
    Call(runner, CacheLayout::kLatent, DecodeMode::kAuto, {{1, window}});
  }
  EXPECT_EQ(runner.stats[AttentionPath::kAbsorbedComposed] +
                runner.stats[AttentionPath::kAbsorbedSplitKv],
            3);
  EXPECT_EQ(runner.stats[AttentionPath::kDecompressed], 0);
}

}  // namespace
}  // namespace mla
