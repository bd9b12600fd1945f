// Attention of a batch of sequences over their caches, by any of the paths.
// Called by: layers/mla_attention, the attention bench. Thread-safety: one call per context.
#ifndef MLA_ATTENTION_ATTENTION_H_
#define MLA_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attention/costs.h"
#include "attention/fold.h"
#include "attention/geometry.h"
#include "attention/kv_cache.h"
#include "attention/split_plan.h"
#include "attention/stats.h"
#include "ops/context.h"

namespace mla {

/// How one query row is served from a latent cache. kAuto picks per call.
enum class DecodeMode { kComposed, kSplitKv, kAuto };

/// How calls choose between paths that give the same numbers up to rounding.
struct AttentionPolicy {
  // Implicit: a mode alone is a policy.
  AttentionPolicy(DecodeMode m = DecodeMode::kComposed) : mode(m) {}  // NOLINT

  DecodeMode mode;
  /// Chunks are cut by position alone, every row runs absorbed on a latent cache and in blocks of
  /// few on a decompressed one, so that a row's bits depend on nothing but its sequence: not on
  /// threads, batch or rows per step.
  bool deterministic = false;
  /// Forces the form of multi-row steps on a latent cache: most rows that run absorbed. -1: the
  /// expected costs decide (kAuto), or AbsorbedRowLimit (forced modes).
  int64_t absorbed_rows = -1;
};

/// Rows [first_row, first_row + rows) of the batch belong to one sequence and stand at positions
/// [position, position + rows); their cache rows are already written.
struct AttentionItem {
  KvCache* cache = nullptr;
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t position = 0;
};

/// Buffers of the absorbed form, independent of the context length. Made once per session.
class AttentionWorkspace {
 public:
  /// `max_sequences`: most items of one call.
  AttentionWorkspace(const MlaGeometry& geometry, CacheLayout layout, int64_t max_sequences);
  int64_t bytes() const;

  struct Task {
    int64_t item, chunk, row, rows, head, heads;
  };

  int64_t row_limit = 0;     // rows that the buffers below hold
  int64_t partial_rows = 0;  // partials that they hold
  int64_t rows = 0;          // of `items`
  int64_t chunks = 0;        // of the rows of longer steps among them
  FloatBuffer q_latent;      // [row_limit, H, Rk + r]
  FloatBuffer context;       // [row_limit, H, Rk]
  FloatBuffer partial_v;     // [max_sequences · kMaxSplitChunks, H, Rk]
  FloatBuffer partial_lse;
  std::vector<AttentionItem> items;
  std::vector<int64_t> local_rows;
  std::vector<bool> several_rows;  // whether the item belongs to a step of several rows
  std::vector<SplitPlan> plans;
  std::vector<int32_t> partial_offsets;
  std::vector<Task> tasks;
  // The last balanced plan and what it was made for: layers of a step ask for the same.
  std::vector<SplitPlan> windows, planned_for;
  BalancedPlan balanced;
  SplitCosts planned_costs;
  int planned_threads = 0;
};

/// Floats of thread scratch that RunAttention needs for caches of this type.
int64_t AttentionScratchFloats(const MlaGeometry& geometry, CacheLayout layout, Elem type,
                               const LatentUnits& units);

/// The unit with which the window is up-projected for many rows (kernels/prefill.h); kFma: with
/// fp32 matrix products.
DotUnit PrefillUnit(const OpContext& context, const MlaGeometry& geometry, const LayerFold& fold,
                    Elem type);

struct AttentionCall {
  const MlaGeometry* geometry = nullptr;
  const LayerFold* fold = nullptr;  ///< may be null for a decompressed cache
  int64_t layer = 0;
  /// [T, H, n + r]: per head nope, then rotated rope; multiplied by the softmax scale.
  const float* q = nullptr;
  float* out = nullptr;  ///< [T, H, v]
  std::span<const AttentionItem> items;
  AttentionPolicy policy;
  int64_t split_chunk = 0;  ///< forces the chunk length of split-KV; 0: the planner's own
  PathStats* stats = nullptr;
};

/// Causal: the row at position p sees cached positions live_start .. p. Scores, softmax state and
/// output accumulate in fp32. All items have the same cache layout. The same call with the same
/// threads gives the same bits; with a deterministic policy, or in one pass, they do not depend on
/// the number of threads or on which other items are in the call either.
void RunAttention(OpContext& context, AttentionWorkspace& workspace, const AttentionCall& call);

}  // namespace mla

#endif  // MLA_ATTENTION_ATTENTION_H_
