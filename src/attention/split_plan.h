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
  int64_t chunk = 0;   ///< positions per chunk; chunk edges are multiples of it
  int64_t chunks = 0;  ///< chunks that hold at least one position of the window

  int64_t ChunkBegin(int64_t i) const;
  int64_t ChunkEnd(int64_t i) const;
};

/// Cuts [begin, end) at the multiples of a chunk length that depends on the window alone, so that
/// neither threads nor batch change a result. `chunk` > 0 forces the length (tests).
/// Throws kUsage for an empty window, several query rows or a negative chunk.
SplitPlan PlanSplit(int64_t begin, int64_t end, int64_t query_rows = 1, int64_t chunk = 0);

/// The partials of a batch: indptr [batch + 1], as kernels/attend.h MergeArgs takes it. Throws
/// kUsage if the number of partials does not fit in 31 bits.
std::vector<int32_t> PartialOffsets(std::span<const SplitPlan> plans);

}  // namespace mla

#endif  // MLA_ATTENTION_SPLIT_PLAN_H_
