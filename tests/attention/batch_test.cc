// Batches: ragged ones against the oracle, and results that depend on nothing but the sequence.
#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace mla {
namespace {

struct Sequence {
  int64_t window, rows, first;
};

// A batch of sequences that share weights; rows in the order given.
struct Batch {
  Batch(const MlaGeometry& g, const std::vector<Sequence>& sequences, CacheLayout layout, Elem type)
      : geometry(g) {
    int64_t row = 0;
    for (const Sequence& s : sequences) {
      auto c = std::make_unique<AttentionCase>(g, s.window, s.rows, 12);  // the weights' seed
      Random random(static_cast<uint64_t>(s.window * 100 + s.first));
      c->latent = random.Normals(s.window * g.latent_dim());
      c->q = random.Normals(s.rows * g.heads * g.qk_dim(), 0.4);
      caches.push_back(MakeCache(*c, layout, type, s.first));
      items.push_back({caches.back().get(), row, s.rows, s.first + s.window - s.rows});
      row += s.rows;
      q.insert(q.end(), c->q.begin(), c->q.end());
      cases.push_back(std::move(c));
    }
  }
  std::vector<float> Run(CacheLayout layout, DecodeMode mode, int threads, int64_t chunk = 0,
                         bool deterministic = true) const {
    AttentionRunner runner(geometry, layout, threads, static_cast<int64_t>(items.size()));
    runner.deterministic = deterministic;
    return runner.Run(cases[0]->Fold(), q, items, mode, chunk);
  }
  // Rows of sequence i of a result.
  std::vector<float> Part(const std::vector<float>& out, size_t i) const {
    const int64_t width = geometry.heads * geometry.v_dim;
    const auto begin = out.begin() + items[i].first_row * width;
    return {begin, begin + items[i].rows * width};
  }

  MlaGeometry geometry;
  std::vector<std::shared_ptr<AttentionCase>> cases;
  std::vector<std::shared_ptr<KvCache>> caches;
  std::vector<AttentionItem> items;
  std::vector<float> q;
};

const std::vector<Sequence> kRaggedDecode = {
    {1, 1, 0}, {300, 1, 5}, {64, 1, 64}, {519, 1, 0}, {63, 1, 1000}};
// Decode steps, short and long prefills in one call; the long ones are up-projected.
const std::vector<Sequence> kMixed = {{200, 1, 0},   {90, 90, 3}, {40, 5, 0}, {300, 1, 7},
                                      {150, 100, 0}, {9, 9, 60},  {20, 20, 0}};

TEST(Batch, RaggedMatchesTheOracle) {
  for (const auto& sequences : {kRaggedDecode, kMixed}) {
    for (const Way& way : kAllWays) {
      for (const Elem type : {Elem::kF32, Elem::kBf16}) {
        const Batch batch(kSmall, sequences, way.layout, type);
        for (const int64_t chunk : {0, 64, -1}) {
          const auto out =
              batch.Run(way.layout, way.mode, 3, std::max<int64_t>(0, chunk), chunk < 0);
          for (size_t i = 0; i < sequences.size(); ++i) {
            EXPECT_LT(RelativeError(batch.Part(out, i), batch.cases[i]->Want(way.layout, type).out),
                      2e-5)
                << way.name << " sequence " << i;
          }
        }
      }
    }
  }
}

TEST(Batch, ThreadsDoNotMatter) {
  for (const MlaGeometry& g : {kSmall, kOdd, MlaGeometry{33, 10, 6, 7, 20, 0}}) {
    for (const auto& sequences : {kRaggedDecode, kMixed}) {
      for (const Way& way : kAllWays) {
        for (const Elem type : {Elem::kF32, Elem::kBf16}) {
          const Batch batch(g, sequences, way.layout, type);
          const auto one = batch.Run(way.layout, way.mode, 1);
          ASSERT_TRUE(Finite(one));
          for (const int threads : {2, 3, 7}) {
            EXPECT_TRUE(SameBits(batch.Run(way.layout, way.mode, threads), one))
                << way.name << " threads " << threads << " heads " << g.heads;
          }
        }
      }
    }
  }
}

TEST(Batch, NeighboursDoNotMatter) {
  for (const auto& sequences : {kRaggedDecode, kMixed}) {
    for (const Way& way : kAllWays) {
      for (const Elem type : {Elem::kF32, Elem::kBf16}) {
        const Batch batch(kOdd, sequences, way.layout, type);
        const auto together = batch.Run(way.layout, way.mode, 2);
        for (size_t i = 0; i < sequences.size(); ++i) {
          const Batch alone(kOdd, {sequences[i]}, way.layout, type);
          EXPECT_TRUE(SameBits(alone.Run(way.layout, way.mode, 2), batch.Part(together, i)))
              << way.name << " sequence " << i << " type " << static_cast<int>(type);
        }
      }
    }
  }
}

// One step of many rows, or the same rows in steps of any size.
TEST(Batch, RowsPerStepDoNotMatterWhenDeterministic) {
  for (const MlaGeometry& g : {kSmall, kOdd, MlaGeometry{33, 10, 6, 7, 20, 0}}) {
    for (const Way& way : {kComposedWay, kSplitWay}) {
      for (const Elem type : {Elem::kF32, Elem::kBf16}) {
        const Batch whole(g, {{700, 300, 5}}, way.layout, type);
        const auto want = whole.Run(way.layout, way.mode, 2);
        for (const int64_t step : {1, 7, 64}) {
          Batch steps = whole;
          steps.items.clear();
          for (int64_t row = 0; row < 300; row += step) {
            AttentionItem item = whole.items[0];
            item.first_row = row;
            item.rows = std::min(step, 300 - row);
            item.position += row;
            steps.items.push_back(item);
          }
          EXPECT_TRUE(SameBits(steps.Run(way.layout, way.mode, 3), want))
              << way.name << " rows per step " << step << " heads " << g.heads;
        }
      }
    }
  }
}

TEST(Batch, SameThreadsSameBits) {
  for (const DecodeMode mode : {DecodeMode::kSplitKv, DecodeMode::kAuto}) {
    const Batch batch(kOdd, kMixed, CacheLayout::kLatent, Elem::kBf16);
    const auto want = batch.Run(CacheLayout::kLatent, mode, 3, 0, false);
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(SameBits(batch.Run(CacheLayout::kLatent, mode, 3, 0, false), want));
    }
  }
}

// Where the rows of an item stand in the batch is its own affair.
TEST(Batch, ItemsInAnyOrder) {
  for (const Way& way : kAllWays) {
    const Batch batch(kSmall, kMixed, way.layout, Elem::kF32);
    const auto want = batch.Run(way.layout, way.mode, 2);
    std::vector<AttentionItem> items = batch.items;
    std::swap(items[0], items[5]);
    std::swap(items[2], items[4]);
    AttentionRunner runner(kSmall, way.layout, 2, static_cast<int64_t>(items.size()));
    runner.deterministic = true;
    EXPECT_TRUE(SameBits(runner.Run(batch.cases[0]->Fold(), batch.q, items, way.mode), want))
        << way.name;
  }
}

// More rows than the workspace holds at once.
TEST(Batch, MoreRowsThanTheWorkspace) {
  std::vector<Sequence> sequences;
  for (int64_t i = 0; i < 9; ++i) sequences.push_back({30 + i, 20, i});
  ASSERT_GT(9 * 20, AbsorbedRowLimit(kSmall));
  const Batch batch(kSmall, sequences, CacheLayout::kLatent, Elem::kF32);
  const auto out = batch.Run(CacheLayout::kLatent, DecodeMode::kComposed, 2);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto want = batch.cases[i]->Want(CacheLayout::kLatent, Elem::kF32).out;
    EXPECT_LT(RelativeError(batch.Part(out, i), want), 2e-5) << "sequence " << i;
  }
}

}  // namespace
}  // namespace mla
