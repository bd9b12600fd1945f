#include "attention/kv_cache.h"

#include <gtest/gtest.h>

#include "support/attention_case.h"
#include "support/expect_error.h"

namespace mla {
namespace {

constexpr int64_t kSegment = KvCache::kSegmentTokens;
constexpr CacheLayout kLayouts[] = {CacheLayout::kLatent, CacheLayout::kDecompressed};

TEST(KvCache, Sizes) {
  const MlaGeometry v2_lite = {16, 128, 64, 128, 512, 0};
  const MlaGeometry v3 = {128, 128, 64, 128, 512, 1536};
  const auto bytes = [](const MlaGeometry& g, CacheLayout layout, Elem type, int64_t layers) {
    return KvCache(g, layers, layout, type, 10).bytes_per_token();
  };
  EXPECT_EQ(bytes(v2_lite, CacheLayout::kDecompressed, Elem::kBf16, 1), 10240);
  EXPECT_EQ(bytes(v2_lite, CacheLayout::kLatent, Elem::kBf16, 1), 1152);
  EXPECT_EQ(bytes(v3, CacheLayout::kDecompressed, Elem::kF16, 61), 81920 * 61);
  EXPECT_EQ(bytes(v3, CacheLayout::kLatent, Elem::kF16, 61), 1152 * 61);
  EXPECT_EQ(bytes(v3, CacheLayout::kLatent, Elem::kF32, 1), 2304);
}

TEST(KvCache, BytesFollowTheTokens) {
  for (const CacheLayout layout : kLayouts) {
    KvCache cache(kOdd, 3, layout, Elem::kF16, 2000);
    EXPECT_EQ(cache.nbytes(), 0);
    EXPECT_EQ(cache.allocated_bytes(), 0) << "no memory before the first token";
    EXPECT_FALSE(cache.can_trim());
    int64_t tokens = 0;
    for (const int64_t step : {int64_t{1}, kSegment - 1, int64_t{1}, int64_t{600}, int64_t{0}}) {
      cache.Extend(step);
      tokens += step;
      EXPECT_EQ(cache.offset(), tokens);
      EXPECT_EQ(cache.live(), tokens);
      EXPECT_EQ(cache.nbytes(), tokens * cache.bytes_per_token());
      const int64_t segments = (tokens + kSegment - 1) / kSegment;
      EXPECT_EQ(cache.allocated_bytes(), segments * kSegment * cache.bytes_per_token());
      EXPECT_TRUE(cache.can_trim());
    }
  }
}

TEST(KvCache, TrimsClampAndCount) {
  KvCache cache(kSmall, 1, CacheLayout::kLatent, Elem::kF32, 5000);
  EXPECT_EQ(cache.Trim(3), 0);
  EXPECT_EQ(cache.TrimFront(3), 0);
  cache.Extend(1000);
  EXPECT_EQ(cache.Trim(-5), 0);
  EXPECT_EQ(cache.TrimFront(-5), 0);
  EXPECT_EQ(cache.Trim(10), 10);
  EXPECT_EQ(cache.offset(), 990) << "the offset goes back";
  EXPECT_EQ(cache.live_start(), 0);
  EXPECT_EQ(cache.TrimFront(100), 100);
  EXPECT_EQ(cache.offset(), 990) << "the offset stays";
  EXPECT_EQ(cache.live_start(), 100);
  EXPECT_EQ(cache.live(), 890);
  EXPECT_EQ(cache.nbytes(), 890 * cache.bytes_per_token());
  EXPECT_EQ(cache.TrimFront(5000), 890);
  EXPECT_EQ(cache.offset(), 990);
  EXPECT_EQ(cache.live(), 0);
  EXPECT_FALSE(cache.can_trim());
  EXPECT_EQ(cache.allocated_bytes(), 0);
  cache.Extend(20);  // goes on where it was
  EXPECT_EQ(cache.offset(), 1010);
  EXPECT_EQ(cache.live_start(), 990);
  EXPECT_EQ(cache.Trim(5000), 20);
  EXPECT_EQ(cache.offset(), 990);
  EXPECT_EQ(cache.live(), 0);
}

TEST(KvCache, SegmentsAreReleasedAtBothEnds) {
  KvCache cache(kSmall, 2, CacheLayout::kDecompressed, Elem::kBf16, 5000);
  const int64_t segment = kSegment * cache.bytes_per_token();
  cache.Extend(3 * kSegment + 1);
  EXPECT_EQ(cache.allocated_bytes(), 4 * segment);
  cache.Trim(1);
  EXPECT_EQ(cache.allocated_bytes(), 3 * segment);
  cache.TrimFront(kSegment - 1);
  EXPECT_EQ(cache.allocated_bytes(), 3 * segment);
  cache.TrimFront(1);
  EXPECT_EQ(cache.allocated_bytes(), 2 * segment);
  cache.Reset(70);
  EXPECT_EQ(cache.allocated_bytes(), 0);
  EXPECT_EQ(cache.offset(), 70);
  EXPECT_EQ(cache.live_start(), 70);
  cache.Extend(1);
  EXPECT_EQ(cache.allocated_bytes(), segment);
}

// A window that slides for ever needs no more than its own rows and a segment at each end.
TEST(KvCache, SlidingWindowStaysSmall) {
  KvCache cache(kSmall, 1, CacheLayout::kLatent, Elem::kBf16, 600);
  cache.Extend(600);
  for (int i = 0; i < 5000; ++i) {
    cache.TrimFront(1);
    cache.Extend(1);
    ASSERT_EQ(cache.live(), 600);
    ASSERT_LE(cache.allocated_bytes(), cache.nbytes() + 2 * kSegment * cache.bytes_per_token());
  }
  EXPECT_EQ(cache.offset(), 5600);
}

TEST(KvCache, AFullOneIsLeftUnchanged) {
  for (const CacheLayout layout : kLayouts) {
    KvCache cache(kSmall, 1, layout, Elem::kF32, 300, 40);
    cache.Extend(299);
    FillRows(cache, kSmall, 1, 40, 299, 2.5f);
    const int64_t before = cache.allocated_bytes();
    ExpectError(ErrorCode::kContextFull, {"2 more tokens", "300", "299", "--ctx"},
                [&] { cache.Extend(2); });
    ExpectError(ErrorCode::kContextFull, {"300"}, [&] { cache.Extend(INT64_MAX); });
    EXPECT_EQ(cache.offset(), 339);
    EXPECT_EQ(cache.live(), 299);
    EXPECT_EQ(cache.allocated_bytes(), before);
    cache.Extend(1);
    EXPECT_EQ(cache.live(), 300);
    EXPECT_EQ(cache.TrimFront(10), 10);  // room again
    EXPECT_NO_THROW(cache.Extend(10));
  }
}

TEST(KvCache, BadCapacity) {
  for (const int64_t capacity : {0, -1}) {
    ExpectError(ErrorCode::kUsage, {std::to_string(capacity).c_str(), "expected 1 or more"},
                [&] { KvCache(kSmall, 1, CacheLayout::kLatent, Elem::kF32, capacity); });
  }
}

// Every row of every layer and head is its own: all written, then all read.
TEST(KvCache, RoundTripOfEveryRow) {
  constexpr int64_t kLayers = 2, kFirst = 250, kRows = 12;  // over a segment's edge
  const MlaGeometry& g = kOdd;
  const KernelTable& kernels = ReferenceKernels();
  for (const Elem type : kAllElems) {
    Random random(4);
    KvCache latent(g, kLayers, CacheLayout::kLatent, type, 100, kFirst);
    KvCache heads(g, kLayers, CacheLayout::kDecompressed, type, 100, kFirst);
    latent.Extend(kRows);
    heads.Extend(kRows);
    const int64_t head_dim = g.qk_dim() + g.v_dim;
    std::vector<float> rows = random.Normals(kLayers * kRows * g.latent_dim());
    std::vector<float> kv = random.Normals(kLayers * kRows * g.heads * head_dim);
    const auto row = [&](int64_t layer, int64_t i) {
      return rows.data() + (layer * kRows + i) * g.latent_dim();
    };
    const auto head_row = [&](int64_t layer, int64_t i, int64_t h) {
      return kv.data() + ((layer * kRows + i) * g.heads + h) * head_dim;
    };
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t i = 0; i < kRows; ++i) {
        latent.StoreLatent(kernels, layer, kFirst + i, row(layer, i));
        for (int64_t h = 0; h < g.heads; ++h) {
          const float* x = head_row(layer, i, h);
          heads.StoreHead(kernels, layer, h, kFirst + i, x, x + g.nope, x + g.qk_dim());
        }
      }
    }
    const auto expect = [&](const std::vector<float>& got, const float* want, int64_t rotated_from,
                            int64_t rotated_to) {
      for (int64_t x = 0; x < static_cast<int64_t>(got.size()); ++x) {
        const bool rotated = x >= rotated_from && x < rotated_to;
        ASSERT_EQ(got[static_cast<size_t>(x)],
                  Rounded(want[x], rotated ? OracleRopeType(type) : type));
      }
    };
    for (const KernelTable* reader : {&FastKernels(), &ReferenceKernels()}) {
      for (int64_t layer = 0; layer < kLayers; ++layer) {
        for (int64_t i = 0; i < kRows; ++i) {
          std::vector<float> got(static_cast<size_t>(g.latent_dim()));
          latent.LoadLatent(*reader, layer, kFirst + i, 1, got.data());
          expect(got, row(layer, i), g.kv_rank, g.latent_dim());
          for (int64_t h = 0; h < g.heads; ++h) {
            got.assign(static_cast<size_t>(g.qk_dim()), kNaN);
            heads.LoadKeys(*reader, layer, h, kFirst + i, 1, got.data());
            expect(got, head_row(layer, i, h), g.nope, g.qk_dim());
            got.assign(static_cast<size_t>(g.v_dim), kNaN);
            heads.LoadValues(*reader, layer, h, kFirst + i, 1, got.data());
            expect(got, head_row(layer, i, h) + g.qk_dim(), 0, 0);
          }
        }
      }
    }
    // Several rows at once, up to the segment's edge.
    std::vector<float> block(static_cast<size_t>(6 * g.latent_dim()));
    latent.LoadLatent(FastKernels(), 1, kFirst, 6, block.data());
    for (int64_t i = 0; i < 6; ++i) {
      expect({block.begin() + i * g.latent_dim(), block.begin() + (i + 1) * g.latent_dim()},
             row(1, i), g.kv_rank, g.latent_dim());
    }
  }
}

}  // namespace
}  // namespace mla
