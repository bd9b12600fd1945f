// Many query rows of one item with the prefill kernel: the window is up-projected tile by tile, as
// RunUpProjected does it, in one kernel.
#include <algorithm>

#include "attention/paths.h"

namespace mla {
namespace {

// The unit that multiplies bf16 serves int8 rows as well: they are exact in bf16.
LatentFormat PrefillFormat(const MlaGeometry& g, Elem type, const LatentUnits& units) {
  LatentFormat format = LatentRowFormat(g, type, units);
  format.unit = units.of_16_bits;
  return format;
}

void RunBlock(OpContext& context, const AttentionCall& call, const AttentionItem& item,
              const PrefillTask& task, int64_t first) {
  const KernelTable& kernels = context.kernels;
  const KvCache& cache = *item.cache;
  const int64_t end = first + task.rows;
  kernels.prefill_begin(task);
  for (int64_t p = cache.live_start(); p < end;) {
    const int64_t next = std::min(end, (p / kLatentTileRows + 1) * kLatentTileRows);
    LatentTileRows tile;
    tile.data = cache.LatentRow(call.layer, p);
    tile.count = next - p;
    tile.visible = first + 1 - p;
    kernels.prefill_tile(task, tile);
    p = next;
  }
  kernels.prefill_finish(task);
}

}  // namespace

int64_t PrefillBlockRows(int64_t rows, int64_t heads, int threads) {
  const int64_t least = (rows + kRowBlock - 1) / kRowBlock;
  const int64_t most = (rows + kLeastRowBlock - 1) / kLeastRowBlock;
  const int64_t blocks = std::max(least, std::min(most, (threads + heads - 1) / heads));
  constexpr int64_t kUnit = 32;  // rows that the kernel takes at once
  return ((rows + blocks - 1) / blocks + kUnit - 1) / kUnit * kUnit;
}

DotUnit PrefillUnit(const OpContext& context, const MlaGeometry& g, const LayerFold& fold,
                    Elem type) {
  const LatentFormat format = PrefillFormat(g, type, context.units);
  const bool serves = fold.kv_b.dtype == DType::kBf16 &&
                      context.kernels.prefill_takes(format, kRowBlock, g.nope, g.v_dim);
  return serves ? format.unit : DotUnit::kFma;
}

int64_t PrefillFloats(const MlaGeometry& g, Elem type, const LatentUnits& units) {
  const LatentFormat format = PrefillFormat(g, type, units);
  return PrefillTakes(format, kRowBlock, g.nope, g.v_dim)
             ? PrefillScratchFloats(format, kRowBlock, g.nope, g.v_dim)
             : 0;
}

void RunPrefill(OpContext& context, const AttentionCall& call, const AttentionItem& item) {
  const MlaGeometry& g = *call.geometry;
  const int64_t block_rows = PrefillBlockRows(item.rows, g.heads, context.pool.threads());
  const int64_t blocks = (item.rows + block_rows - 1) / block_rows;
  const LatentFormat format = PrefillFormat(g, item.cache->type(), context.units);
  context.pool.Run(blocks * g.heads, [&](int64_t index, int thread) {
    const int64_t head = index % g.heads;
    // The longest blocks first: they take the most time.
    const int64_t first = (blocks - 1 - index / g.heads) * block_rows;
    const int64_t row = item.first_row + first;
    PrefillTask task;
    task.q_row_stride = g.heads * g.qk_dim();
    task.q = call.q + row * task.q_row_stride + head * g.qk_dim();
    task.rows = std::min(block_rows, item.rows - first);
    task.nope = g.nope;
    task.v_dim = g.v_dim;
    task.format = format;
    const WeightView uk = call.fold->Uk(g, head);
    task.w_uk = uk.data;
    task.w_uv = call.fold->Uv(g, head).data;
    task.w_stride = uk.stride;
    task.scratch = context.scratch.Get(thread);
    task.out_row_stride = g.heads * g.v_dim;
    task.out = call.out + row * task.out_row_stride + head * g.v_dim;
    RunBlock(context, call, item, task, item.position + first);
  });
}

}  // namespace mla
