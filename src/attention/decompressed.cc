// Per-head attention: over cached K and V, or over tiles of a latent window that are up-projected,
// used by all query rows of the task, and dropped.
#include <algorithm>

#include "attention/paths.h"
#include "attention/tiles.h"

namespace mla {
namespace {

// A block of query rows of one head of one item, with its state after the tile buffers in scratch.
struct HeadBlock {
  TileQueries queries;
  TileState state;
  int64_t row = 0;  // first row in the batch
  int64_t end = 0;  // one past the last position that any row sees
};

// Blocks of many rows sum in another order than those of few, so a deterministic policy has only
// blocks of few, whatever the step.
int64_t BlockRows(const AttentionCall& call) {
  return call.policy.deterministic ? kConvertFrom - 1 : kRowBlock;
}

HeadBlock BeginBlock(const AttentionCall& call, const AttentionItem& item, int64_t block,
                     int64_t head, float* memory) {
  const MlaGeometry& g = *call.geometry;
  HeadBlock b;
  const int64_t first = block * BlockRows(call);
  b.row = item.first_row + first;
  b.queries.count = std::min(BlockRows(call), item.rows - first);
  b.queries.stride = g.heads * g.qk_dim();
  b.queries.q = call.q + b.row * b.queries.stride + head * g.qk_dim();
  b.queries.first_position = item.position + first;
  b.state = TileState::At(memory, b.queries.count, g.v_dim);
  b.end = b.queries.first_position + b.queries.count;
  return b;
}

void EndBlock(OpContext& context, const AttentionCall& call, const HeadBlock& b, int64_t head) {
  const MlaGeometry& g = *call.geometry;
  AttendFinishArgs finish;
  finish.max = b.state.max;
  finish.sum = b.state.sum;
  finish.acc = b.state.acc;
  finish.acc_stride = g.v_dim;
  finish.out = call.out + (b.row * g.heads + head) * g.v_dim;
  finish.out_stride = g.heads * g.v_dim;
  finish.m = b.queries.count;
  finish.dv = g.v_dim;
  context.kernels.attend_finish(finish);
}

int64_t Blocks(const AttentionCall& call, const AttentionItem& item) {
  return (item.rows + BlockRows(call) - 1) / BlockRows(call);
}

}  // namespace

void RunUpProjected(OpContext& context, const AttentionCall& call, const AttentionItem& item) {
  const MlaGeometry& g = *call.geometry;
  if (PrefillUnit(context, g, *call.fold, item.cache->type()) != DotUnit::kFma) {
    return RunPrefill(context, call, item);
  }
  const KernelTable& kernels = context.kernels;
  context.pool.Run(Blocks(call, item) * g.heads, [&](int64_t task, int thread) {
    const int64_t head = task % g.heads;
    float* latent = context.scratch.Get(thread);           // [64, Rk + r]
    float* k = latent + kAttendTileRows * g.latent_dim();  // [64, n + r]
    float* v = k + kAttendTileRows * g.qk_dim();           // [64, v]
    // The longest blocks first: they take the most time.
    const int64_t block = Blocks(call, item) - 1 - task / g.heads;
    const HeadBlock b = BeginBlock(call, item, block, head, v + kAttendTileRows * g.v_dim);
    const WeightView uk = call.fold->Uk(g, head);
    const WeightView uv = call.fold->Uv(g, head);
    ForEachTile(kernels, b.queries, item.cache->live_start(), b.end, g.qk_dim(), g.v_dim, b.state,
                [&](int64_t position, int64_t t) {
                  item.cache->LoadLatent(kernels, call.layer, position, t, latent);
                  kernels.matmul_nt(ProductNt(latent, g.latent_dim(), t, uk, k, g.qk_dim()));
                  kernels.matmul_nt(ProductNt(latent, g.latent_dim(), t, uv, v, g.v_dim));
                  for (int64_t i = 0; i < t; ++i) {
                    const float* rope = latent + i * g.latent_dim() + g.kv_rank;
                    std::copy(rope, rope + g.rope, k + i * g.qk_dim() + g.nope);
                  }
                  return KeyTile{.k = k, .k_stride = g.qk_dim(), .v = v, .v_stride = g.v_dim};
                });
    EndBlock(context, call, b, head);
  });
}

void RunDecompressed(OpContext& context, const AttentionCall& call) {
  const MlaGeometry& g = *call.geometry;
  const KernelTable& kernels = context.kernels;
  int64_t blocks = 0;
  for (const AttentionItem& item : call.items) blocks += Blocks(call, item);
  context.pool.Run(blocks * g.heads, [&](int64_t task, int thread) {
    const int64_t head = task % g.heads;
    int64_t block = blocks - 1 - task / g.heads;
    const AttentionItem* item = call.items.data();
    while (block >= Blocks(call, *item)) {
      block -= Blocks(call, *item);
      ++item;
    }
    float* k = context.scratch.Get(thread);       // [64, n + r]
    float* v = k + kAttendTileRows * g.qk_dim();  // [64, v]
    const HeadBlock b = BeginBlock(call, *item, block, head, v + kAttendTileRows * g.v_dim);
    ForEachTile(kernels, b.queries, item->cache->live_start(), b.end, g.qk_dim(), g.v_dim, b.state,
                [&](int64_t position, int64_t t) {
                  const KvCache& cache = *item->cache;
                  if (cache.type() != Elem::kF32 && b.queries.count >= kConvertFrom) {
                    cache.LoadKeys(kernels, call.layer, head, position, t, k);
                    cache.LoadValues(kernels, call.layer, head, position, t, v);
                    return KeyTile{.k = k, .k_stride = g.qk_dim(), .v = v, .v_stride = g.v_dim};
                  }
                  const char* keys =
                      static_cast<const char*>(cache.KeyRow(call.layer, head, position));
                  return KeyTile{.k = keys,
                                 .k_stride = g.qk_dim(),
                                 .v = cache.ValueRow(call.layer, head, position),
                                 .v_stride = g.v_dim,
                                 .type = cache.type(),
                                 .k_rope = keys + g.nope * ElemSize(cache.type()),
                                 .k_rope_stride = g.qk_dim(),
                                 .rope_type = cache.rope_type(),
                                 .dr = g.rope};
                });
    EndBlock(context, call, b, head);
  });
}

}  // namespace mla
