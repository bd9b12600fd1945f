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

// A row sees no row after its own, whatever is there.
TEST(Poison, LaterRowsOfTheWindowDoNotMatter) {
  for (const Way& way : kAllWays) {
    for (const int64_t rows : {1, 2, 7, 30, 90}) {
      for (const float bad : {kNaN, kInfinity}) {
        const AttentionCase c(kSmall, 130, rows, 2);
        const auto clean = RunCase(c, way);
        for (int64_t from = std::max<int64_t>(130 - rows + 1, 1); from < 130; from += 5) {
          AttentionCase broken = c;
          std::fill(broken.latent.begin() + from * kSmall.latent_dim(), broken.latent.end(), bad);
          const auto got = RunCase(broken, way);
          const int64_t whole = (from - (130 - rows)) * kSmall.heads * kSmall.v_dim;
          EXPECT_TRUE(
              SameBits({got.begin(), got.begin() + whole}, {clean.begin(), clean.begin() + whole}))
              << way.name << " rows " << rows << " broken from " << from;
          EXPECT_FALSE(Finite({got.begin() + whole, got.end()})) << way.name;
        }
      }
    }
  }
}

// One broken element of one key of the window, in c_kv or k_rope, must show.
TEST(Poison, ANaNKeyReachesTheOutput) {
  const MlaGeometry& g = kOdd;
  for (const Way& way : kAllWays) {
    for (const Elem type : kAllElems) {
      for (const int64_t at : {0, 7, 63, 64, 299}) {
        for (const int64_t element : {int64_t{3}, g.kv_rank + 1}) {
          for (const int64_t rows : {1, 2, 70}) {
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
