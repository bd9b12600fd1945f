// Absorbed attention: scores and context straight from latent rows, with (row, head) pairs as the M
// of the products. score = q_lat·c_kv + q_rope·k_rope, ctx = sum p·c_kv, out = w_uv·ctx.
#include <algorithm>
#include <cmath>

#include "attention/paths.h"
#include "attention/tiles.h"

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

// (item, chunk, group of flat pairs) tasks. Groups shrink until every thread has one: a group's
// result does not depend on what else is in it.
void PlanTasks(AttentionWorkspace& ws, int64_t heads, int threads) {
  int64_t group = kHeadGroup;
  const auto count = [&] {
    int64_t tasks = 0;
    for (size_t i = 0; i < ws.items.size(); ++i) {
      tasks += ws.plans[i].chunks * ((ws.items[i].rows * heads + group - 1) / group);
    }
    return tasks;
  };
  while (group > 4 && count() < threads) group /= 2;
  ws.tasks.clear();
  for (size_t i = 0; i < ws.items.size(); ++i) {
    const int64_t pairs = ws.items[i].rows * heads;
    // Even groups, so that 20 heads are 12 + 8 rather than 16 + 4.
    const int64_t groups = (pairs + group - 1) / group;
    const int64_t even = ((pairs + groups - 1) / groups + 3) / 4 * 4;
    for (int64_t chunk = 0; chunk < ws.plans[i].chunks; ++chunk) {
      for (int64_t first = 0; first < pairs; first += even) {
        ws.tasks.push_back({static_cast<int64_t>(i), chunk, first, std::min(even, pairs - first)});
      }
    }
  }
}

void RunTask(OpContext& context, AttentionWorkspace& ws, const AttentionCall& call,
             const AttentionWorkspace::Task& task, int thread) {
  const MlaGeometry& g = *call.geometry;
  const size_t i = static_cast<size_t>(task.item);
  const AttentionItem& item = ws.items[i];
  const SplitPlan& plan = ws.plans[i];
  const int64_t dim = g.latent_dim();
  float* tile = context.scratch.Get(thread);
  const TileState state = TileState::At(tile + kAttendTileRows * dim, task.count, g.kv_rank);

  TileQueries queries;
  queries.q = ws.q_latent.data() + (ws.local_rows[i] * g.heads + task.first) * dim;
  queries.stride = dim;
  queries.count = task.count;
  queries.first = task.first;
  queries.heads = g.heads;
  queries.first_position = item.position;
  // No pair of the group sees a key after its last pair's position.
  const int64_t end = std::min(plan.ChunkEnd(task.chunk), queries.Position(task.count - 1) + 1);
  ForEachTile(
      context.kernels, queries, plan.ChunkBegin(task.chunk), end, dim, g.kv_rank, state,
      [&](int64_t position, int64_t t) {
        const void* rows = tile;
        if (item.cache->type() == Elem::kF32) {
          rows = item.cache->LatentRow(call.layer, position);
        } else {
          item.cache->LoadLatent(context.kernels, call.layer, position, t, tile);
        }
        const int64_t next = position + t;
        const void* prefetch = next < end ? item.cache->LatentRow(call.layer, next) : nullptr;
        return KeyTile{.k = rows,
                       .k_stride = dim,
                       .v = rows,
                       .v_stride = dim,
                       .prefetch = prefetch,
                       .prefetch_bytes = kAttendTileRows * dim * ElemSize(item.cache->type())};
      });

  AttendFinishArgs finish;
  finish.max = state.max;
  finish.sum = state.sum;
  finish.acc = state.acc;
  finish.acc_stride = finish.out_stride = g.kv_rank;
  finish.m = task.count;
  finish.dv = g.kv_rank;
  if (plan.chunks == 1) {
    finish.out = ws.context.data() + (ws.local_rows[i] * g.heads + task.first) * g.kv_rank;
  } else {
    const int64_t pair = (ws.partial_offsets[i] + task.chunk) * g.heads + task.first;
    finish.out = ws.partial_v.data() + pair * g.kv_rank;
    finish.lse = ws.partial_lse.data() + pair;
  }
  context.kernels.attend_finish(finish);
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
  PlanTasks(ws, call.geometry->heads, context.pool.threads());
  context.pool.Run(static_cast<int64_t>(ws.tasks.size()), [&](int64_t task, int thread) {
    RunTask(context, ws, call, ws.tasks[static_cast<size_t>(task)], thread);
  });
  ProjectOutput(context, ws, call);
}

}  // namespace mla
