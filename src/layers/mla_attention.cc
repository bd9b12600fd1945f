#include "layers/mla_attention.h"

#include "base/check.h"
#include "ops/rows.h"

namespace mla {
namespace {

// The item and position of row `row` of the batch.
const AttentionItem& ItemOf(const MlaStep& step, int64_t row) {
  for (const AttentionItem& item : step.items) {
    if (row < item.first_row + item.rows) return item;
  }
  return step.items.back();
}

void ProjectQueries(OpContext& context, const MlaStep& step, const MlaWeights& w, MlaBuffers& b,
                    const float* x, int64_t hidden) {
  const MlaGeometry& g = *step.geometry;
  const int64_t q_width = g.heads * g.qk_dim();
  const LinearOutput kv_a{&w.kv_a, b.kv_a.data(), g.latent_dim()};
  if (g.q_rank == 0) {
    const LinearOutput outputs[] = {{&w.q_proj, b.q.data(), q_width}, kv_a};
    ApplyLinear(context, x, hidden, step.rows, outputs);
    return;
  }
  const LinearOutput outputs[] = {{&w.q_a, b.q_a.data(), g.q_rank}, kv_a};
  ApplyLinear(context, x, hidden, step.rows, outputs);
  RmsNormRows(context, b.q_a.data(), g.q_rank, w.q_a_norm, step.lora_norm_eps, b.q_a.data(),
              g.q_rank, step.rows, g.q_rank);
  const LinearOutput q_b[] = {{&w.q_b, b.q.data(), q_width}};
  ApplyLinear(context, b.q_a.data(), g.q_rank, step.rows, q_b);
}

// Per row: norms the latent, rotates q_rope and k_rope, scales q; on a latent cache also stores the
// row.
void FinishRows(OpContext& context, const MlaStep& step, const MlaWeights& w, MlaBuffers& b,
                int64_t layer) {
  const MlaGeometry& g = *step.geometry;
  const KernelTable& kernels = context.kernels;
  const bool half = step.rope_style == RopeStyle::kHalfSplit;
  const float scale = static_cast<float>(step.softmax_scale);
  context.pool.Run(step.rows, [&](int64_t row, int) {
    const float* cos = step.cos + row * (g.rope / 2);
    const float* sin = step.sin + row * (g.rope / 2);
    float* q = b.q.data() + row * g.heads * g.qk_dim();
    for (int64_t h = 0; h < g.heads; ++h) {
      kernels.rotate_pairs(q + h * g.qk_dim() + g.nope, cos, sin, g.rope, half);
    }
    for (int64_t i = 0; i < g.heads * g.qk_dim(); ++i) q[i] *= scale;
    float* latent = b.kv_a.data() + row * g.latent_dim();
    // k_rope shares the row but not the norm.
    kernels.rms_norm(latent, w.kv_a_norm, static_cast<float>(step.lora_norm_eps), latent,
                     g.kv_rank);
    kernels.rotate_pairs(latent + g.kv_rank, cos, sin, g.rope, half);
    const AttentionItem& item = ItemOf(step, row);
    if (item.cache->layout() != CacheLayout::kLatent) return;
    item.cache->StoreLatent(kernels, layer, item.position + row - item.first_row, latent);
  });
}

// Up-projects the new rows' latents and stores K and V per head.
void StoreDecompressed(OpContext& context, const MlaStep& step, const MlaWeights& w, MlaBuffers& b,
                       int64_t layer) {
  const MlaGeometry& g = *step.geometry;
  const KernelTable& kernels = context.kernels;
  const LinearOutput kv[] = {{&w.kv_b, b.kv.data(), g.kv_b_rows()}};
  ApplyLinear(context, b.kv_a.data(), g.latent_dim(), step.rows, kv);
  context.pool.Run(step.rows, [&](int64_t row, int) {
    const AttentionItem& item = ItemOf(step, row);
    const KvCache& cache = *item.cache;
    const int64_t position = item.position + row - item.first_row;
    const float* rope = b.kv_a.data() + row * g.latent_dim() + g.kv_rank;
    for (int64_t h = 0; h < g.heads; ++h) {
      const float* source = b.kv.data() + row * g.kv_b_rows() + h * (g.nope + g.v_dim);
      cache.StoreHead(kernels, layer, h, position, source, rope, source + g.nope);
    }
  });
}

}  // namespace

MlaBuffers::MlaBuffers(const MlaGeometry& g, CacheLayout layout, int64_t max_rows,
                       int64_t max_sequences)
    : q(max_rows * g.heads * g.qk_dim()),
      q_a(max_rows * g.q_rank),
      kv_a(max_rows * g.latent_dim()),
      kv(layout == CacheLayout::kDecompressed ? max_rows * g.kv_b_rows() : 0),
      context(max_rows * g.heads * g.v_dim),
      workspace(g, layout, max_sequences) {}

int64_t MlaBuffers::bytes() const {
  return 4 * (q.size() + q_a.size() + kv_a.size() + kv.size() + context.size()) + workspace.bytes();
}

void MlaAttention(OpContext& context, const MlaStep& step, const MlaWeights& weights,
                  const LayerFold& fold, int64_t layer, MlaBuffers& buffers, const float* x,
                  float* residual) {
  const MlaGeometry& g = *step.geometry;
  const int64_t hidden = weights.o.weight.rows;
  ProjectQueries(context, step, weights, buffers, x, hidden);
  FinishRows(context, step, weights, buffers, layer);
  if (step.items[0].cache->layout() == CacheLayout::kDecompressed) {
    StoreDecompressed(context, step, weights, buffers, layer);
  }
  AttentionCall call;
  call.geometry = step.geometry;
  call.fold = &fold;
  call.layer = layer;
  call.q = buffers.q.data();
  call.out = buffers.context.data();
  call.items = step.items;
  call.policy = step.policy;
  call.stats = step.stats;
  RunAttention(context, buffers.workspace, call);
  const LinearOutput o[] = {{&weights.o, residual, hidden}};
  ApplyLinear(context, buffers.context.data(), g.heads * g.v_dim, step.rows, o, true);
}

}  // namespace mla
