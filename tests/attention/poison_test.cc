// NaN where nobody may look (RunCase fills all storage around the window with it), and NaN that
// must not get lost.
#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace mla {
namespace {

TEST(Poison, UnusedRowsAreNotRead) {
  for (const Way& way : kAllWays) {
    for (const Elem type : kAllElems) {
      for (const int64_t first : {0, 3, 65, 300}) {
        for (const int64_t window : {1, 60, 64, 190, 300}) {
          const AttentionCase c(kOdd, window, 1, 1);
          for (const int64_t chunk : {0, 64}) {
            const auto got =
                RunCase(c, way, {.type = type, .split_chunk = chunk, .first_position = first});
            ASSERT_TRUE(Finite(got)) << way.name << " first " << first << " window " << window;
          }
        }
      }
    }
  }
}

// The control: the storage around the window really is NaN.
TEST(Poison, TheStorageAroundIsNaN) {
  const AttentionCase c(kOdd, 10, 1, 1);
  for (const Way& way : {kDecompressedWay, kComposedWay}) {
    const auto cache = MakeCache(c, way.layout, Elem::kBf16, 5);
    AttentionRunner runner(c.geometry, way.layout);
    EXPECT_TRUE(Finite(runner.Run(c.Fold(), c.q, {{cache.get(), 0, 1, 14}}, way.mode)));
    cache->Extend(1);  // a row that was never written
    EXPECT_TRUE(HasNaN(runner.Run(c.Fold(), c.q, {{cache.get(), 0, 1, 15}}, way.mode)));
  }
}

// A row sees no row after its own, whatever is there. The multi-row kernels share a tile between
// rows, so the later row is ordinary here and only far away.
TEST(Poison, LaterRowsOfTheWindowDoNotMatter) {
  for (const Way& way : kAllWays) {
    const AttentionCase c(kSmall, 100, 1, 2);
    AttentionCase longer(kSmall, 130, 1, 2);
    std::copy(c.latent.begin(), c.latent.end(), longer.latent.begin());
    for (size_t i = c.latent.size(); i < longer.latent.size(); ++i) longer.latent[i] = kNaN;
    const auto cache = MakeCache(longer, way.layout, Elem::kF32);
    AttentionRunner runner(c.geometry, way.layout);
    const auto got = runner.Run(c.Fold(), c.q, {{cache.get(), 0, 1, 99}}, way.mode);
    EXPECT_TRUE(SameBits(got, RunCase(c, way))) << way.name;
  }
}

// One broken element of one key of the window, in c_kv or k_rope, must show.
TEST(Poison, ANaNKeyReachesTheOutput) {
  for (const MlaGeometry& g : {kSmall, kOdd}) {
    for (const Way& way : kAllWays) {
      for (const Elem type : kAllElems) {
        for (const int64_t at : {0, 1, 7, 63, 64, 150, 299}) {
          for (const int64_t element : {int64_t{3}, g.kv_rank + 1}) {
            for (const int64_t rows : {1, 2, 90}) {
              if (rows > 1 && way.mode == DecodeMode::kSplitKv) continue;
              AttentionCase c(g, 300, rows, 3);
              c.latent[static_cast<size_t>(at * g.latent_dim() + element)] = kNaN;
              const auto got = RunCase(c, way, {.type = type});
              // Every head of the last row sees every key.
              for (int64_t h = 0; h < g.heads; ++h) {
                const auto head = got.end() - (g.heads - h) * g.v_dim;
                EXPECT_TRUE(HasNaN({head, head + g.v_dim}))
                    << way.name << " key " << at << " element " << element << " rows " << rows
                    << " type " << static_cast<int>(type) << " head " << h;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Poison, ANaNQueryReachesItsOwnOutputOnly) {
  for (const Way& way : kAllWays) {
    for (const int64_t rows : {1, 3, 90}) {
      for (const int64_t element : {0, 17}) {
        AttentionCase c(kSmall, 600, rows, 4);
        const MlaGeometry& g = c.geometry;
        const auto clean = RunCase(c, way);
        const int64_t bad = rows / 2 * g.heads + 2;  // (row, head)
        c.q[static_cast<size_t>(bad * g.qk_dim() + element)] = kNaN;
        const auto got = RunCase(c, way);
        for (int64_t i = 0; i < rows * g.heads; ++i) {
          const std::vector<float> head(got.begin() + i * g.v_dim, got.begin() + (i + 1) * g.v_dim);
          const std::vector<float> before(clean.begin() + i * g.v_dim,
                                          clean.begin() + (i + 1) * g.v_dim);
          if (i == bad) {
            EXPECT_TRUE(std::isnan(head[0]) && std::isnan(head.back())) << way.name;
          } else {
            EXPECT_TRUE(SameBits(head, before)) << way.name << " rows " << rows << " pair " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mla
