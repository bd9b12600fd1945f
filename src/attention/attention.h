// Attention of a batch of sequences over their caches, by any of the paths.
// Called by: layers/mla_attention, the attention bench. Thread-safety: one call per context.
#ifndef MLA_ATTENTION_ATTENTION_H_
#define MLA_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attention/fold.h"
#include "attention/geometry.h"
#include "attention/kv_cache.h"
#include "attention/split_plan.h"
#include "attention/stats.h"
#include "ops/context.h"

namespace mla {

/// How one query row is served from a latent cache. kAuto picks per call.
enum class DecodeMode { kComposed, kSplitKv, kAuto };

/// Rows [first_row, first_row + rows) of the batch belong to one sequence and stand at positions
/// [position, position + rows); their cache rows are already written.
struct AttentionItem {
  KvCache* cache = nullptr;
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t position = 0;
};

/// Most query rows of a multi-row step that run absorbed: below Rk(n+v)/(2Rk-n-v) rows the absorbed
/// form does less arithmetic than up-projecting the window (docs/mla.md section 6); capped, since
/// its buffers hold H(2Rk+r) floats per row.
int64_t AbsorbedRowLimit(const MlaGeometry& geometry);

/// Buffers of the absorbed form, independent of the context length. Made once per session.
class AttentionWorkspace {
 public:
  /// `max_sequences`: most items of one call.
  AttentionWorkspace(const MlaGeometry& geometry, CacheLayout layout, int64_t max_sequences);
  int64_t bytes() const;

  struct Task {
    int64_t item, chunk, row, rows, head, heads;
  };

  int64_t row_limit = 0;  // rows that the buffers below hold
  FloatBuffer q_latent;   // [row_limit, H, Rk + r]
  FloatBuffer context;    // [row_limit, H, Rk]
  FloatBuffer partial_v;  // [max_sequences · kMaxSplitChunks, H, Rk]
  FloatBuffer partial_lse;
  std::vector<AttentionItem> items;
  std::vector<int64_t> local_rows;
  std::vector<SplitPlan> plans;
  std::vector<int32_t> partial_offsets;
  std::vector<Task> tasks;
};

/// Floats of thread scratch that RunAttention needs.
int64_t AttentionScratchFloats(const MlaGeometry& geometry, CacheLayout layout);

struct AttentionCall {
  const MlaGeometry* geometry = nullptr;
  const LayerFold* fold = nullptr;  ///< may be null for a decompressed cache
  int64_t layer = 0;
  /// [T, H, n + r]: per head nope, then rotated rope; multiplied by the softmax scale.
  const float* q = nullptr;
  float* out = nullptr;  ///< [T, H, v]
  std::span<const AttentionItem> items;
  DecodeMode mode = DecodeMode::kComposed;
  int64_t split_chunk = 0;  ///< forces the chunk length of split-KV; 0: PlanSplit's own
  PathStats* stats = nullptr;
};

/// Causal: the row at position p sees cached positions live_start .. p. Scores, softmax state and
/// output accumulate in fp32. All items have the same cache layout. Results do not depend on the
/// number of threads or on which other items are in the call.
void RunAttention(OpContext& context, AttentionWorkspace& workspace, const AttentionCall& call);

}  // namespace mla

#endif  // MLA_ATTENTION_ATTENTION_H_
