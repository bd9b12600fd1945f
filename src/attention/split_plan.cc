#include "attention/split_plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kernels/attend.h"

namespace mla {
namespace {

constexpr int64_t kHeadsPerUnit = 16;

constexpr int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// The window in as few equal chunks as keep each at most `target` long.
SplitPlan EqualChunks(const SplitPlan& window, int64_t target) {
  const int64_t length = window.end - window.begin;
  const int64_t pieces = std::clamp<int64_t>((length + target - 1) / target, 1, kMaxSplitChunks);
  // Fine edges where a coarse one would leave the last chunk much shorter than the others.
  const int64_t even = (length + pieces - 1) / pieces;
  const int64_t chunk = std::max(kMinSplitChunk, RoundUp(even, even < 1024 ? 8 : 64));
  return {window.begin, window.end, chunk, (length + chunk - 1) / chunk, window.begin};
}

// Expected time of a plan: tasks taken from one queue the longest first,
// then the merge, shared by all threads.
void Expect(BalancedPlan& plan, int64_t units, int threads, const SplitCosts& costs) {
  std::vector<double> busy(static_cast<size_t>(threads), 0);
  std::vector<double> tasks;
  double work = 0, partials = 0;
  for (const SplitPlan& p : plan.plans) {
    if (p.chunks > 1) partials += static_cast<double>(p.chunks);
    for (int64_t chunk = 0; chunk < p.chunks; ++chunk) {
      const int64_t keys = p.ChunkEnd(chunk) - p.ChunkBegin(chunk);
      for (int64_t unit = 0; unit < units; unit += plan.task_units) {
        const auto mine = static_cast<double>(std::min(plan.task_units, units - unit));
        const double cost =
            static_cast<double>(keys) * (mine + costs.key_units) + mine * costs.task_keys;
        tasks.push_back(cost);
        work += cost;
      }
    }
  }
  std::sort(tasks.rbegin(), tasks.rend());
  for (const double cost : tasks) *std::min_element(busy.begin(), busy.end()) += cost;
  const double longest = *std::max_element(busy.begin(), busy.end());
  const double sharers = static_cast<double>(std::min<int64_t>(threads, units * kHeadsPerUnit));
  plan.even = longest / (work / threads);
  plan.makespan = longest;
  if (partials > 0) {
    plan.makespan +=
        costs.region_keys + partials * static_cast<double>(units) * costs.merge_keys / sharers;
  }
}

}  // namespace

int64_t SplitPlan::ChunkBegin(int64_t i) const {
  return std::max(begin, origin + ((begin - origin) / chunk + i) * chunk);
}

int64_t SplitPlan::ChunkEnd(int64_t i) const {
  return std::min(end, origin + ((begin - origin) / chunk + i + 1) * chunk);
}

SplitPlan PlanSplit(int64_t begin, int64_t end, int64_t query_rows, int64_t chunk) {
  if (begin < 0 || begin >= end) {
    Fail(ErrorCode::kUsage, "split-KV: the window [{}, {}) is empty; expected one key or more",
         begin, end);
  }
  if (query_rows != 1) {
    Fail(ErrorCode::kUsage, "split-KV: {} query rows; expected exactly one", query_rows);
  }
  if (chunk < 0)
    Fail(ErrorCode::kUsage, "split-KV: the chunk length is {}; expected 1 or more", chunk);
  SplitPlan plan{begin, end, chunk, 0, 0};
  if (chunk == 0) {
    // One chunk less than the limit: a window that starts within a chunk touches one more.
    const int64_t least = (end - begin + kMaxSplitChunks - 2) / (kMaxSplitChunks - 1);
    plan.chunk = (least + kAttendTileRows - 1) / kAttendTileRows * kAttendTileRows;
    plan.chunk = std::max(plan.chunk, 2 * kMinSplitChunk);
  }
  plan.chunks = (end - 1) / plan.chunk - begin / plan.chunk + 1;
  return plan;
}

BalancedPlan PlanBalanced(std::span<const SplitPlan> windows, int64_t units, int64_t most_units,
                          int threads, const SplitCosts& costs) {
  int64_t total = 0;
  for (const SplitPlan& w : windows) {
    if (w.begin < 0 || w.begin >= w.end) {
      Fail(ErrorCode::kUsage, "split-KV: the window [{}, {}) is empty; expected one key or more",
           w.begin, w.end);
    }
    total += w.end - w.begin;
  }
  BalancedPlan best;
  // Chunks must promise some gain: their states are written, read again and merged.
  constexpr double kGain = 0.94;
  double one_pass = 0;
  const auto consider = [&](int64_t target, int64_t task_units) {
    BalancedPlan plan;
    plan.task_units = task_units;
    for (const SplitPlan& w : windows) plan.plans.push_back(EqualChunks(w, target));
    Expect(plan, units, threads, costs);
    const double needed = target < total ? kGain * one_pass : best.makespan;
    if (best.plans.empty() || plan.makespan < std::min(needed, best.makespan)) {
      best = std::move(plan);
    }
  };
  const int64_t widest = std::min(units, most_units);
  for (int64_t task_units = widest;; task_units = (task_units + 1) / 2) {
    consider(total, task_units);
    if (task_units == 1) break;
  }
  one_pass = best.makespan;
  const int64_t groups = (units + widest - 1) / widest;
  for (int64_t per_thread = 1; per_thread <= 6; ++per_thread) {
    const int64_t chunks = std::max<int64_t>(1, per_thread * threads / groups);
    consider(std::max(kMinSplitChunk, (total + chunks - 1) / chunks), widest);
  }
  return best;
}

std::vector<int32_t> PartialOffsets(std::span<const SplitPlan> plans) {
  std::vector<int32_t> offsets = {0};
  for (const SplitPlan& plan : plans) {
    const int64_t next = offsets.back() + plan.chunks;
    if (next > std::numeric_limits<int32_t>::max()) {
      Fail(ErrorCode::kUsage, "split-KV: {} partial states; expected at most 2^31 - 1", next);
    }
    offsets.push_back(static_cast<int32_t>(next));
  }
  return offsets;
}

}  // namespace mla
