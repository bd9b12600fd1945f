// What auto goes by: the same on every machine, for a given unit.
#include "attention/costs.h"

#include <gtest/gtest.h>

#include "attention/kv_cache.h"

namespace mla {
namespace {

constexpr MlaGeometry kV2Lite = {16, 128, 64, 128, 512, 0};

bool Absorbed(DotUnit prefill, int threads, int64_t rows, int64_t window) {
  const LatentFormat format = LatentRowFormat(kV2Lite, Elem::kBf16, {});
  return PreferAbsorbed(kV2Lite, ExpectedCosts(kV2Lite, format, prefill), threads, rows, window);
}

TEST(Costs, AFasterUpProjectionIsTakenFromFewerRowsOn) {
  for (const int64_t window : {512, 4096, 16384}) {
    int64_t least[2];
    for (const DotUnit prefill : {DotUnit::kFma, DotUnit::kAmxBf16}) {
      int64_t rows = 1;
      while (rows <= window && Absorbed(prefill, 2, rows, window)) ++rows;
      EXPECT_GT(rows, 1) << "one row is never worth a window";
      EXPECT_LE(rows, 512) << window;
      least[prefill == DotUnit::kFma ? 0 : 1] = rows;
    }
    EXPECT_LT(least[1], least[0]) << window;
  }
}

// With 64 threads and 16 heads a step of 512 rows is cut into blocks for all threads.
TEST(Costs, BlocksForManyThreadsCount) {
  const AttentionCosts costs =
      ExpectedCosts(kV2Lite, LatentRowFormat(kV2Lite, Elem::kBf16, {}), DotUnit::kAmxBf16);
  EXPECT_TRUE(costs.blocks_for_threads);
  EXPECT_FALSE(PreferAbsorbed(kV2Lite, costs, 64, 512, 4096));
}

}  // namespace
}  // namespace mla
