#include "attention/attention.h"

#include <algorithm>

#include "attention/paths.h"
#include "attention/tiles.h"
#include "base/check.h"

namespace mla {
namespace {

SplitPlan OnePass(const AttentionItem& item) {
  // One chunk edge past the end.
  const int64_t begin = item.cache->live_start();
  const int64_t end = item.position + item.rows;
  return {begin, end, end, 1, 0};
}

bool SamePlan(const SplitPlan& a, const SplitPlan& b) {
  return a.begin == b.begin && a.end == b.end;
}

// Plans for the one-row items by what is even across the threads.
void PlanForThreads(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call) {
  const SplitCosts costs =
      ExpectedCosts(*call.geometry, ws.items[0].cache->latent_format(context.units), DotUnit::kFma)
          .split;
  const int threads = context.pool.threads();
  ws.windows.clear();
  for (const AttentionItem& item : ws.items) {
    if (item.rows == 1) ws.windows.push_back(OnePass(item));
  }
  if (ws.windows.empty()) return;
  if (threads != ws.planned_threads || costs != ws.planned_costs ||
      !std::equal(ws.windows.begin(), ws.windows.end(), ws.planned_for.begin(),
                  ws.planned_for.end(), SamePlan)) {
    ws.balanced = PlanBalanced(ws.windows, PaddedHeads(call.geometry->heads) / kHeadUnit,
                               kTaskPairs / kHeadUnit, threads, costs);
    ws.planned_for = ws.windows;
    ws.planned_costs = costs;
    ws.planned_threads = threads;
  }
  size_t next = 0;
  for (size_t i = 0; i < ws.items.size(); ++i) {
    if (ws.items[i].rows == 1) ws.plans[i] = ws.balanced.plans[next++];
  }
}

// Serves what was collected in workspace.items.
void FlushAbsorbed(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call,
                   PathSet& paths) {
  if (ws.items.empty()) return;
  const AttentionPolicy& policy = call.policy;
  ws.plans.clear();
  for (const AttentionItem& item : ws.items) ws.plans.push_back(OnePass(item));
  if (policy.mode != DecodeMode::kComposed) {
    if (!policy.deterministic && call.split_chunk == 0) {
      PlanForThreads(context, ws, call);
    } else {
      for (size_t i = 0; i < ws.items.size(); ++i) {
        const SplitPlan& whole = ws.plans[i];
        if (ws.items[i].rows == 1) {
          ws.plans[i] = PlanSplit(whole.begin, whole.end, 1, call.split_chunk);
        }
      }
    }
  }
  for (size_t i = 0; i < ws.items.size(); ++i) {
    const bool split = policy.mode == DecodeMode::kSplitKv ||
                       (policy.mode == DecodeMode::kAuto && ws.plans[i].chunks > 1);
    paths.Use(ws.several_rows[i] ? AttentionPath::kAbsorbedPrefill
              : split            ? AttentionPath::kAbsorbedSplitKv
                                 : AttentionPath::kAbsorbedComposed);
  }
  RunAbsorbed(context, ws, call);
  ws.items.clear();
  ws.local_rows.clear();
  ws.several_rows.clear();
  ws.rows = 0;
  ws.chunks = 0;
}

// Adds rows of an item, in blocks that the workspace holds. With chunks by position each row has
// its own, as in the step of one row that it must equal.
void AddAbsorbed(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call,
                 const AttentionItem& item, PathSet& paths) {
  const bool one_by_one =
      call.policy.deterministic && call.policy.mode != DecodeMode::kComposed && item.rows > 1;
  const int64_t block = one_by_one ? 1 : ws.row_limit;
  const int64_t most_chunks = std::max<int64_t>(ws.partial_rows, kMaxSplitChunks);
  for (int64_t row = 0; row < item.rows;) {
    if (ws.rows == ws.row_limit || (one_by_one && ws.chunks + kMaxSplitChunks > most_chunks)) {
      FlushAbsorbed(context, ws, call, paths);
    }
    const int64_t rows = std::min({block, item.rows - row, ws.row_limit - ws.rows});
    ws.items.push_back({item.cache, item.first_row + row, rows, item.position + row});
    ws.local_rows.push_back(ws.rows);
    ws.several_rows.push_back(item.rows > 1);
    ws.rows += rows;
    if (one_by_one) {
      ws.chunks +=
          PlanSplit(item.cache->live_start(), item.position + row + 1, 1, call.split_chunk).chunks;
    }
    row += rows;
  }
}

bool RunsAbsorbed(const OpContext& context, const AttentionCall& call, const AttentionItem& item) {
  const AttentionPolicy& policy = call.policy;
  if (item.rows == 1 || policy.deterministic) return true;
  if (policy.absorbed_rows >= 0) return item.rows <= policy.absorbed_rows;
  if (policy.mode != DecodeMode::kAuto) return item.rows <= AbsorbedRowLimit(*call.geometry);
  const int64_t window = item.position + item.rows - item.cache->live_start();
  const AttentionCosts costs =
      ExpectedCosts(*call.geometry, item.cache->latent_format(context.units),
                    PrefillUnit(context, *call.geometry, *call.fold, item.cache->type()));
  return PreferAbsorbed(*call.geometry, costs, context.pool.threads(), item.rows, window);
}

}  // namespace

AttentionWorkspace::AttentionWorkspace(const MlaGeometry& g, CacheLayout layout,
                                       int64_t max_sequences) {
  if (layout == CacheLayout::kDecompressed) return;
  row_limit = std::max(AbsorbedRowLimit(g), max_sequences);
  q_latent = FloatBuffer(row_limit * g.heads * g.latent_dim());
  context = FloatBuffer(row_limit * g.heads * g.kv_rank);
  partial_v = FloatBuffer(max_sequences * kMaxSplitChunks * g.heads * g.kv_rank);
  partial_lse = FloatBuffer(max_sequences * kMaxSplitChunks * g.heads);
  partial_rows = max_sequences * kMaxSplitChunks;
  const size_t most = static_cast<size_t>(max_sequences);
  items.reserve(most);
  local_rows.reserve(most);
  plans.reserve(most);
  partial_offsets.reserve(most + 1);
}

int64_t AttentionWorkspace::bytes() const {
  return 4 * (q_latent.size() + context.size() + partial_v.size() + partial_lse.size());
}

int64_t AttentionScratchFloats(const MlaGeometry& g, CacheLayout layout, Elem type,
                               const LatentUnits& units) {
  const int64_t head_tile = kAttendTileRows * (g.qk_dim() + g.v_dim);
  const int64_t rows = head_tile + TileState::Floats(kRowBlock, g.v_dim);
  if (layout == CacheLayout::kDecompressed) return rows;
  const int64_t latent_tile = kAttendTileRows * g.latent_dim();
  const int64_t task_heads = std::min(g.heads, kTaskPairs);
  const int64_t task_rows = std::max<int64_t>(1, kTaskPairs / PaddedHeads(g.heads));
  return std::max({latent_tile + rows, PrefillFloats(g, type, units),
                   LatentScratchFloats(LatentRowFormat(g, type, units), task_rows, task_heads)});
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
  for (const AttentionItem& item : call.items) {
    if (RunsAbsorbed(context, call, item)) {
      AddAbsorbed(context, ws, call, item, paths);
    } else {
      RunUpProjected(context, call, item);
      paths.Use(AttentionPath::kAbsorbedPrefill);
    }
  }
  FlushAbsorbed(context, ws, call, paths);
  call.stats->Add(paths);
}

}  // namespace mla
