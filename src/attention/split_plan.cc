#include "attention/split_plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kernels/attend.h"

namespace mla {

int64_t SplitPlan::ChunkBegin(int64_t i) const {
  return std::max(begin, (begin / chunk + i) * chunk);
}

int64_t SplitPlan::ChunkEnd(int64_t i) const {
  return std::min(end, (begin / chunk + i + 1) * chunk);
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
  SplitPlan plan{begin, end, chunk, 0};
  if (chunk == 0) {
    // One chunk less than the limit: a window that starts within a chunk touches one more.
    const int64_t least = (end - begin + kMaxSplitChunks - 2) / (kMaxSplitChunks - 1);
    plan.chunk = (least + kAttendTileRows - 1) / kAttendTileRows * kAttendTileRows;
    plan.chunk = std::max(plan.chunk, 2 * kMinSplitChunk);
  }
  plan.chunks = (end - 1) / plan.chunk - begin / plan.chunk + 1;
  return plan;
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
