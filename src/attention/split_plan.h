// How one query row's window is cut into chunks for split-KV attention (docs/mla.md section 7).
// Called by: attention. Thread-safety: stateless.
#ifndef MLA_ATTENTION_SPLIT_PLAN_H_
#define MLA_ATTENTION_SPLIT_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

namespace mla {

/// Most chunks of one sequence: bounds the partial states, whatever the context.
inline constexpr int64_t kMaxSplitChunks = 32;
/// Shortest chunk, unless the window is shorter.
inline constexpr int64_t kMinSplitChunk = 128;

struct SplitPlan {
  int64_t begin = 0;   ///< first position of the window
  int64_t end = 0;     ///< one past the last
  int64_t chunk = 0;   ///< positions per chunk; chunk edges are multiples of it after origin
  int64_t chunks = 0;  ///< chunks that hold at least one position of the window
  int64_t origin = 0;  ///< 0: edges at positions of their own; begin: equal chunks

  int64_t ChunkBegin(int64_t i) const;
  int64_t ChunkEnd(int64_t i) const;
};

/// Cuts [begin, end) at the multiples of a chunk length that depends on the window alone, so that
/// neither threads nor batch change a result. `chunk` > 0 forces the length (tests).
/// Throws kUsage for an empty window, several query rows or a negative chunk.
SplitPlan PlanSplit(int64_t begin, int64_t end, int64_t query_rows = 1, int64_t chunk = 0);

/// What a plan costs, in units of one cached key for one unit of heads (kHeadUnit).
struct SplitCosts {
  double task_keys = 32;   ///< beginning and finishing a task, per unit of heads
  double merge_keys = 8;   ///< merging one partial, per unit of heads
  double region_keys = 8;  ///< what the merge costs however small it is
  double key_units = 0;    ///< what a key costs a task however few its heads, in units of heads

  bool operator==(const SplitCosts&) const = default;
};

/// The windows of one call, cut for its threads.
struct BalancedPlan {
  std::vector<SplitPlan> plans;  ///< one per window
  int64_t task_units = 1;        ///< units of heads per task
  double makespan = 0;           ///< expected, in keys of one unit of heads
  double even = 1;               ///< makespan of the tasks / work per thread, at least 1
};

/// Cuts the windows of one-row items into equal chunks of at least kMinSplitChunk positions (the
/// last of a window may be shorter) and the heads into groups of at most `most_units` units of
/// heads, such that the threads finish together: of the plans with about one to six tasks per
/// thread, the one with the lowest expected time, and one pass unless cutting is expected to be
/// faster. Depends on its arguments alone: the same call gives the same plan.
/// Throws kUsage for an empty window.
BalancedPlan PlanBalanced(std::span<const SplitPlan> windows, int64_t units, int64_t most_units,
                          int threads, const SplitCosts& costs = {});

/// The partials of a batch: indptr [batch + 1], as kernels/attend.h MergeArgs takes it. Throws
/// kUsage if the number of partials does not fit in 31 bits.
std::vector<int32_t> PartialOffsets(std::span<const SplitPlan> plans);

}  // namespace mla

#endif  // MLA_ATTENTION_SPLIT_PLAN_H_
