#include "parallel/thread_pool.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "mla/error.h"

namespace mla {
namespace {

TEST(ThreadPool, EveryTaskRunsOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t tasks : {0, 1, 2, 7, 64, 1000}) {
      std::vector<std::atomic<int>> hits(tasks);
      pool.Run(tasks, [&](int64_t task, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        hits[task].fetch_add(1);
      });
      for (auto& h : hits) EXPECT_EQ(h.load(), 1);
    }
  }
}

TEST(ThreadPool, RegionsSeeTheWritesOfTheOneBefore) {
  ThreadPool pool(4);
  std::vector<int64_t> values(257, 0);
  std::vector<int64_t> next(257, 0);
  for (int round = 0; round < 2000; ++round) {
    // Each task reads what another thread may have written, but only in the region before.
    pool.Run(257, [&](int64_t task, int) {
      next[static_cast<size_t>(task)] = values[static_cast<size_t>((task * 7) % 257)] + 1;
    });
    values.swap(next);
  }
  for (int64_t v : values) EXPECT_EQ(v, 2000);
}

TEST(ThreadPool, ThreadIndexIsExclusive) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> clashes{0};
  pool.Run(500, [&](int64_t, int thread) {
    if (inside[thread].fetch_add(1) != 0) clashes.fetch_add(1);
    std::this_thread::yield();
    inside[thread].fetch_sub(1);
  });
  EXPECT_EQ(clashes.load(), 0);
}

TEST(ThreadPool, WakesParkedWorkers) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> sum{0};
    pool.Run(30, [&](int64_t, int) { sum.fetch_add(1); });
    EXPECT_EQ(sum.load(), 30);
  }
}

TEST(ThreadPool, RunsOnEachThreadOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::thread::id> ids(static_cast<size_t>(threads));
      std::vector<int> calls(static_cast<size_t>(threads), 0);
      pool.RunOnEachThread([&](int thread) {
        ids[static_cast<size_t>(thread)] = std::this_thread::get_id();
        ++calls[static_cast<size_t>(thread)];
      });
      EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(threads), 1));
      EXPECT_EQ(ids[0], std::this_thread::get_id());
      EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), ids.size());
      if (round == 100) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // parked
    }
  }
}

TEST(ThreadPool, RefusesZeroThreads) { EXPECT_THROW(ThreadPool(0), Error); }

}  // namespace
}  // namespace mla
