// Absorbed attention: scores and context straight from latent rows, with (row, head) pairs as the M
// of the products. score = q_lat·c_kv + q_rope·k_rope, ctx = sum p·c_kv, out = w_uv·ctx.
#include <algorithm>
#include <cmath>

#include "attention/paths.h"

namespace mla {
namespace {

// Whether the items' rows are consecutive in the batch, so that a head's products over all of them
// are one matrix product.
bool Consecutive(const std::vector<AttentionItem>& items) {
  for (size_t i = 1; i < items.size(); ++i) {
    if (items[i].first_row != items[i - 1].first_row + items[i - 1].rows) return false;
  }
  return true;
}

// Runs fn(first_row in the batch, local row, rows, head, thread) for runs of consecutive rows.
template <typename Fn>
void ForEachRunAndHead(OpContext& context, const AttentionWorkspace& ws, int64_t heads, Fn fn) {
  const bool joined = Consecutive(ws.items);
  const int64_t runs = joined ? 1 : static_cast<int64_t>(ws.items.size());
  context.pool.Run(runs * heads, [&](int64_t task, int thread) {
    const size_t i = static_cast<size_t>(task / heads);
    const int64_t rows = joined ? ws.local_rows.back() + ws.items.back().rows : ws.items[i].rows;
    fn(ws.items[i].first_row, ws.local_rows[i], rows, task % heads, thread);
  });
}

// q_lat = w_ukᵀ q_nope per head, with q_rope appended.
void ProjectQueries(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call) {
  const MlaGeometry& g = *call.geometry;
  const int64_t q_stride = g.heads * g.qk_dim();
  const int64_t lat_stride = g.heads * g.latent_dim();
  ForEachRunAndHead(
      context, ws, g.heads, [&](int64_t first, int64_t local, int64_t rows, int64_t head, int) {
        const WeightView uk = call.fold->Uk(g, head);
        const float* q = call.q + first * q_stride + head * g.qk_dim();
        float* q_lat = ws.q_latent.data() + local * lat_stride + head * g.latent_dim();
        context.kernels.matmul_nn(ProductNn(q, q_stride, rows, uk, q_lat, lat_stride));
        for (int64_t i = 0; i < rows; ++i) {
          const float* rope = q + i * q_stride + g.nope;
          std::copy(rope, rope + g.rope, q_lat + i * lat_stride + g.kv_rank);
        }
      });
}

// (item, chunk, rows, heads) tasks of at most kTaskPairs pairs. Tasks shrink until every thread has
// one, down to a vector of heads: a pair's result does not depend on what else is in its task.
// `most`: pairs that the planner asked for.
void PlanTasks(AttentionWorkspace& ws, int64_t heads, int64_t most, int threads) {
  const auto rows_of = [&] { return std::max<int64_t>(1, most / PaddedHeads(heads)); };
  const auto heads_of = [&] { return std::min(heads, most); };
  const auto count = [&] {
    int64_t tasks = 0;
    for (size_t i = 0; i < ws.items.size(); ++i) {
      tasks += ws.plans[i].chunks * ((ws.items[i].rows + rows_of() - 1) / rows_of()) *
               ((heads + heads_of() - 1) / heads_of());
    }
    return tasks;
  };
  while (most > kHeadUnit && count() < threads) most -= kHeadUnit;
  ws.tasks.clear();
  for (size_t i = 0; i < ws.items.size(); ++i) {
    for (int64_t chunk = 0; chunk < ws.plans[i].chunks; ++chunk) {
      for (int64_t row = 0; row < ws.items[i].rows; row += rows_of()) {
        for (int64_t head = 0; head < heads; head += heads_of()) {
          ws.tasks.push_back({static_cast<int64_t>(i), chunk, row,
                              std::min(rows_of(), ws.items[i].rows - row), head,
                              std::min(heads_of(), heads - head)});
        }
      }
    }
  }
}

// Longest first: no thread is left with one when the others are done.
void SortTasks(AttentionWorkspace& ws) {
  const auto cost = [&](const AttentionWorkspace::Task& t) {
    const SplitPlan& plan = ws.plans[static_cast<size_t>(t.item)];
    return (plan.ChunkEnd(t.chunk) - plan.ChunkBegin(t.chunk)) * PaddedHeads(t.heads);
  };
  std::sort(ws.tasks.begin(), ws.tasks.end(),
            [&](const auto& a, const auto& b) { return cost(a) > cost(b); });
}

LatentTask MakeTask(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call,
                    const AttentionWorkspace::Task& task, int thread) {
  const MlaGeometry& g = *call.geometry;
  const size_t i = static_cast<size_t>(task.item);
  const int64_t pair = (ws.local_rows[i] + task.row) * g.heads + task.head;
  LatentTask t;
  t.q = ws.q_latent.data() + pair * g.latent_dim();
  t.q_row_stride = g.heads * g.latent_dim();
  t.q_head_stride = g.latent_dim();
  t.rows = task.rows;
  t.heads = task.heads;
  t.format = ws.items[i].cache->latent_format(context.units);
  t.scratch = context.scratch.Get(thread);
  t.out_row_stride = g.heads * g.kv_rank;
  t.out_head_stride = g.kv_rank;
  if (ws.plans[i].chunks == 1) {
    t.out = ws.context.data() + pair * g.kv_rank;
  } else {
    const int64_t partial = (ws.partial_offsets[i] + task.chunk) * g.heads + task.head;
    t.out = ws.partial_v.data() + partial * g.kv_rank;
    t.lse = ws.partial_lse.data() + partial;
  }
  return t;
}

void RunTask(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call,
             const AttentionWorkspace::Task& task, int thread) {
  const size_t i = static_cast<size_t>(task.item);
  const AttentionItem& item = ws.items[i];
  const SplitPlan& plan = ws.plans[i];
  const LatentTask t = MakeTask(context, ws, call, task, thread);
  context.kernels.latent_begin(t);
  // No row of the task sees a key after its last row's position.
  const int64_t first = item.position + task.row;
  const int64_t end = std::min(plan.ChunkEnd(task.chunk), first + task.rows);
  const auto tile_end = [&](int64_t p) {
    return std::min(end, (p / kLatentTileRows + 1) * kLatentTileRows);
  };
  for (int64_t p = plan.ChunkBegin(task.chunk); p < end;) {
    const int64_t next = tile_end(p);
    LatentTileRows tile;
    tile.data = item.cache->LatentRow(call.layer, p);
    tile.count = next - p;
    tile.visible = first + 1 - p;
    if (next < end) {
      tile.next = item.cache->LatentRow(call.layer, next);
      tile.next_count = tile_end(next) - next;
    }
    context.kernels.latent_tile(t, tile);
    p = next;
  }
  context.kernels.latent_finish(t);
}

// By its contract the merge leaves partials out whose weight is NaN. Here such a partial comes from
// a NaN in the query or a key of the chunk, and must not vanish.
void KeepNaN(AttentionWorkspace& ws, size_t item, const MlaGeometry& g, int64_t head) {
  for (int64_t i = ws.partial_offsets[item]; i < ws.partial_offsets[item + 1]; ++i) {
    const float lse = ws.partial_lse[i * g.heads + head];
    if (!std::isnan(lse)) continue;
    float* context = ws.context.data() + (ws.local_rows[item] * g.heads + head) * g.kv_rank;
    std::fill(context, context + g.kv_rank, lse);
  }
}

// Merges the partials of split items into the context, then out = w_uv·ctx per head.
void ProjectOutput(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call) {
  const MlaGeometry& g = *call.geometry;
  const int64_t ctx_stride = g.heads * g.kv_rank;
  const int64_t out_stride = g.heads * g.v_dim;
  ForEachRunAndHead(
      context, ws, g.heads, [&](int64_t first, int64_t local, int64_t rows, int64_t head, int) {
        for (size_t i = 0; i < ws.items.size(); ++i) {
          if (ws.plans[i].chunks == 1 || ws.local_rows[i] < local ||
              ws.local_rows[i] >= local + rows) {
            continue;
          }
          MergeArgs merge;
          merge.v_in = ws.partial_v.data();
          merge.lse_in = ws.partial_lse.data();
          // Output 0 of these two offsets is item i; its row of the context is
          // shifted in.
          merge.indptr = ws.partial_offsets.data() + i;
          merge.v_out = ws.context.data() + ws.local_rows[i] * ctx_stride;
          merge.heads = g.heads;
          merge.dim = g.kv_rank;
          merge.head = head;
          context.kernels.merge_states(merge);
          KeepNaN(ws, i, g, head);
        }
        const WeightView uv = call.fold->Uv(g, head);
        const float* ctx = ws.context.data() + local * ctx_stride + head * g.kv_rank;
        float* out = call.out + first * out_stride + head * g.v_dim;
        context.kernels.matmul_nt(ProductNt(ctx, ctx_stride, rows, uv, out, out_stride));
      });
}

}  // namespace

void RunAbsorbed(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call) {
  ws.partial_offsets.assign(1, 0);
  for (const SplitPlan& plan : ws.plans) {
    const int64_t partials = plan.chunks > 1 ? plan.chunks : 0;
    ws.partial_offsets.push_back(ws.partial_offsets.back() + static_cast<int32_t>(partials));
  }
  const int64_t needed = ws.partial_offsets.back() * call.geometry->heads;
  if (needed > ws.partial_lse.size()) {
    // Only a forced chunk length asks for more than kMaxSplitChunks.
    ws.partial_v = FloatBuffer(needed * call.geometry->kv_rank);
    ws.partial_lse = FloatBuffer(needed);
  }
  ProjectQueries(context, ws, call);
  // The plan's own groups only where it made all the tasks.
  const bool planned = call.policy.mode != DecodeMode::kComposed && !call.policy.deterministic &&
                       call.split_chunk == 0 && ws.windows.size() == ws.items.size();
  const int64_t most = planned ? ws.balanced.task_units * kHeadUnit : kTaskPairs;
  PlanTasks(ws, call.geometry->heads, most, planned ? 1 : context.pool.threads());
  if (planned) SortTasks(ws);
  context.pool.Run(static_cast<int64_t>(ws.tasks.size()), [&](int64_t task, int thread) {
    RunTask(context, ws, call, ws.tasks[static_cast<size_t>(task)], thread);
  });
  ProjectOutput(context, ws, call);
}

}  // namespace mla
