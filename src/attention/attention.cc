#include "attention/attention.h"

#include <algorithm>

#include "attention/paths.h"
#include "attention/tiles.h"
#include "base/check.h"

namespace mla {
namespace {

// Window from which kAuto cuts one query row's window in chunks. A fixed rule until crossovers are
// measured on the machine at hand.
constexpr int64_t kAutoSplitFrom = 1024;

// Serves what was collected in workspace.items.
void FlushAbsorbed(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call) {
  if (ws.items.empty()) return;
  RunAbsorbed(context, ws, call);
  ws.items.clear();
  ws.local_rows.clear();
  ws.plans.clear();
}

}  // namespace

int64_t AbsorbedRowLimit(const MlaGeometry& g) {
  constexpr int64_t kMost = 64;
  const int64_t saving = 2 * g.kv_rank - g.nope - g.v_dim;
  if (saving <= 0) return kMost;
  return std::clamp<int64_t>(g.kv_rank * (g.nope + g.v_dim) / saving, 1, kMost);
}

AttentionWorkspace::AttentionWorkspace(const MlaGeometry& g, CacheLayout layout,
                                       int64_t max_sequences) {
  if (layout == CacheLayout::kDecompressed) return;
  row_limit = std::max(AbsorbedRowLimit(g), max_sequences);
  q_latent = FloatBuffer(row_limit * g.heads * g.latent_dim());
  context = FloatBuffer(row_limit * g.heads * g.kv_rank);
  partial_v = FloatBuffer(max_sequences * kMaxSplitChunks * g.heads * g.kv_rank);
  partial_lse = FloatBuffer(max_sequences * kMaxSplitChunks * g.heads);
  const size_t most = static_cast<size_t>(max_sequences);
  items.reserve(most);
  local_rows.reserve(most);
  plans.reserve(most);
  partial_offsets.reserve(most + 1);
}

int64_t AttentionWorkspace::bytes() const {
  return 4 * (q_latent.size() + context.size() + partial_v.size() + partial_lse.size());
}

int64_t AttentionScratchFloats(const MlaGeometry& g, CacheLayout layout) {
  const int64_t head_tile = kAttendTileRows * (g.qk_dim() + g.v_dim);
  const int64_t rows = head_tile + TileState::Floats(kRowBlock, g.v_dim);
  if (layout == CacheLayout::kDecompressed) return rows;
  const int64_t latent_tile = kAttendTileRows * g.latent_dim();
  const int64_t task_heads = std::min(g.heads, kTaskPairs);
  const int64_t task_rows = std::max<int64_t>(1, kTaskPairs / PaddedHeads(g.heads));
  LatentFormat format;
  format.rank = g.kv_rank;
  format.rope = g.rope;
  return std::max(latent_tile + rows, LatentScratchFloats(format, task_rows, task_heads));
}

void RunAttention(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call) {
  if (call.items.empty()) return;
  const CacheLayout layout = call.items[0].cache->layout();
  PathSet paths;
  for (const AttentionItem& item : call.items) {
    Require(item.cache->layout() == layout && item.rows > 0 &&
                item.position >= item.cache->live_start() &&
                item.position + item.rows <= item.cache->offset(),
            "RunAttention: an item does not match its cache");
  }
  if (layout == CacheLayout::kDecompressed) {
    RunDecompressed(context, call);
    paths.Use(AttentionPath::kDecompressed);
    call.stats->Add(paths);
    return;
  }
  Require(call.fold != nullptr && call.fold->folded(), "RunAttention: latent cache without a fold");
  const int64_t limit = AbsorbedRowLimit(*call.geometry);
  int64_t rows = 0;
  for (const AttentionItem& item : call.items) {
    if (item.rows > limit) {
      RunUpProjected(context, call, item);
      paths.Use(AttentionPath::kAbsorbedPrefill);
      continue;
    }
    if (rows + item.rows > ws.row_limit) {
      FlushAbsorbed(context, ws, call);
      rows = 0;
    }
    const int64_t begin = item.cache->live_start();
    const int64_t end = item.position + item.rows;
    const bool split =
        item.rows == 1 && (call.mode == DecodeMode::kSplitKv ||
                           (call.mode == DecodeMode::kAuto && end - begin >= kAutoSplitFrom));
    ws.items.push_back(item);
    ws.local_rows.push_back(rows);
    // One chunk edge past the end: the whole window in one pass.
    ws.plans.push_back(split ? PlanSplit(begin, end, 1, call.split_chunk)
                             : SplitPlan{begin, end, end, 1});
    rows += item.rows;
    paths.Use(item.rows > 1 ? AttentionPath::kAbsorbedPrefill
              : split       ? AttentionPath::kAbsorbedSplitKv
                            : AttentionPath::kAbsorbedComposed);
  }
  FlushAbsorbed(context, ws, call);
  call.stats->Add(paths);
}

}  // namespace mla
