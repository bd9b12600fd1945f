#include "attention/split_plan.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace mla {
namespace {

// Chunks cover the window once, in order, none empty, inner edges at multiples of the length.
void ExpectPartition(const SplitPlan& plan) {
  ASSERT_GT(plan.chunks, 0);
  int64_t at = plan.begin;
  for (int64_t i = 0; i < plan.chunks; ++i) {
    ASSERT_EQ(plan.ChunkBegin(i), at) << "chunk " << i;
    ASSERT_GT(plan.ChunkEnd(i), at) << "chunk " << i;
    at = plan.ChunkEnd(i);
    if (i + 1 < plan.chunks) {
      ASSERT_EQ(at % plan.chunk, 0);
    }
  }
  ASSERT_EQ(at, plan.end);
}

TEST(SplitPlan, ForcedChunks) {
  const struct {
    int64_t begin, end, chunk, chunks;
  } table[] = {{0, 37, 8, 5}, {0, 37, 16, 3}, {0, 37, 37, 1}, {0, 37, 64, 1},
               {5, 37, 8, 5}, {7, 9, 8, 2},   {8, 16, 8, 1},  {0, 1, 1, 1},
               {3, 10, 1, 7}, {0, 64, 64, 1}, {0, 65, 64, 2}, {63, 65, 64, 2}};
  for (const auto& t : table) {
    const SplitPlan plan = PlanSplit(t.begin, t.end, 1, t.chunk);
    EXPECT_EQ(plan.chunk, t.chunk);
    EXPECT_EQ(plan.chunks, t.chunks) << t.begin << " " << t.end << " " << t.chunk;
    ExpectPartition(plan);
  }
}

TEST(SplitPlan, OwnChunksStayWithinTheLimits) {
  for (const int64_t begin : {0, 1, 63, 64, 255, 1000, 99999}) {
    for (const int64_t length : {1, 2, 127, 128, 129, 255, 256, 257, 4095, 4096, 8191, 8192, 16384,
                                 30000, 100000, 1000000, 10000000}) {
      const SplitPlan plan = PlanSplit(begin, begin + length);
      ExpectPartition(plan);
      EXPECT_LE(plan.chunks, kMaxSplitChunks) << begin << " + " << length;
      EXPECT_GE(plan.chunk, kMinSplitChunk);
      EXPECT_EQ(plan.chunk % 64, 0) << "a tile must not straddle chunks";
      if (length <= kMinSplitChunk) {
        EXPECT_LE(plan.chunks, 2);
      }
    }
  }
  EXPECT_GT(PlanSplit(0, 100000).chunks, 16) << "long windows are cut for real";
}

int64_t Keys(const SplitPlan& p, int64_t chunk) { return p.ChunkEnd(chunk) - p.ChunkBegin(chunk); }

TEST(SplitPlan, BalancedPlansAreEvenAndNeverSlowerThanOnePass) {
  for (const int threads : {1, 2, 3, 4, 8, 16, 32}) {
    for (const int64_t units : {1, 2, 3, 8, 16}) {
      for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{1},
                                                  {127},
                                                  {300},
                                                  {4096},
                                                  {32768},
                                                  {100001},
                                                  {32768, 1000, 1000, 1000},
                                                  {500, 4096, 7, 130, 9000},
                                                  {8192, 8192, 8192, 8192}}) {
        std::vector<SplitPlan> windows;
        int64_t begin = 77, total = 0;
        for (const int64_t n : lengths) {
          windows.push_back({begin, begin + n, begin + n, 1, 0});
          begin += n;
          total += n;
        }
        const BalancedPlan plan = PlanBalanced(windows, units, 8, threads);
        double one_pass = 0;  // all in one task per window, one after the other by thread
        for (size_t i = 0; i < windows.size(); ++i) {
          const SplitPlan& p = plan.plans[i];
          EXPECT_EQ(p.begin, windows[i].begin);
          EXPECT_LE(p.chunks, kMaxSplitChunks);
          int64_t at = p.begin;
          for (int64_t c = 0; c < p.chunks; ++c) {
            ASSERT_EQ(p.ChunkBegin(c), at);
            at = p.ChunkEnd(c);
            if (c + 1 < p.chunks) {
              EXPECT_GE(Keys(p, c), kMinSplitChunk);
            }
          }
          ASSERT_EQ(at, p.end);
          one_pass += static_cast<double>(lengths[i] + 32) * static_cast<double>(units);
        }
        EXPECT_LE(plan.makespan, one_pass);
        // Enough work for every thread to have a chunk of a length that is worth it.
        if (total >= 1024 * threads) {
          EXPECT_LE(plan.even, 1.1) << threads << " threads, " << units << " units, " << total;
        }
      }
    }
  }
}

// By the planner's own measure: a longer window is never expected to be much faster than a shorter.
TEST(SplitPlan, BalancedPlansHaveNoCliffs) {
  for (const int threads : {1, 2, 4, 7, 16}) {
    for (const int64_t units : {1, 3, 8}) {
      std::vector<double> cost(4096 + 65);
      for (int64_t n = 1; n < 4096 + 65; ++n) {
        const SplitPlan window{0, n, n, 1, 0};
        cost[static_cast<size_t>(n)] = PlanBalanced({&window, 1}, units, 8, threads).makespan;
      }
      for (size_t n = 1; n <= 4096; ++n) {
        ASSERT_LE(cost[n], 1.1 * cost[n + 64]) << n << " keys, " << threads << " " << units;
      }
    }
  }
}

TEST(SplitPlan, BalancedErrors) {
  const SplitPlan empty{5, 5, 5, 1, 0};
  ExpectError(ErrorCode::kUsage, {"[5, 5)", "empty"}, [&] { PlanBalanced({&empty, 1}, 1, 8, 2); });
}

TEST(SplitPlan, Errors) {
  ExpectError(ErrorCode::kUsage, {"[5, 5)", "empty"}, [] { PlanSplit(5, 5); });
  ExpectError(ErrorCode::kUsage, {"[6, 5)", "empty"}, [] { PlanSplit(6, 5); });
  ExpectError(ErrorCode::kUsage, {"[-1, 5)"}, [] { PlanSplit(-1, 5); });
  for (const int64_t rows : {0, 2, -1}) {
    ExpectError(ErrorCode::kUsage, {std::to_string(rows).c_str(), "exactly one"},
                [&] { PlanSplit(0, 5, rows); });
  }
  ExpectError(ErrorCode::kUsage, {"-8", "chunk"}, [] { PlanSplit(0, 5, 1, -8); });
}

TEST(SplitPlan, OffsetsOfARaggedBatch) {
  const std::vector<SplitPlan> plans = {PlanSplit(0, 37, 1, 8), PlanSplit(0, 1, 1, 8),
                                        PlanSplit(30, 300, 1, 64)};
  EXPECT_EQ(PartialOffsets(plans), (std::vector<int32_t>{0, 5, 6, 11}));
  EXPECT_EQ(PartialOffsets({}), (std::vector<int32_t>{0}));
  const std::vector<SplitPlan> huge(3, PlanSplit(0, int64_t{1} << 30, 1, 1));
  ExpectError(ErrorCode::kUsage, {"2^31"}, [&] { PartialOffsets(huge); });
}

}  // namespace
}  // namespace mla
