// The attention block of one decoder layer: projections, norms, rotation, cache, attention, o_proj.
// Called by: layers/decoder_layer. Thread-safety: one call per context.
#ifndef MLA_LAYERS_MLA_ATTENTION_H_
#define MLA_LAYERS_MLA_ATTENTION_H_

#include <cstdint>
#include <span>

#include "attention/attention.h"
#include "layers/weights.h"
#include "ops/rope_table.h"

namespace mla {

/// What is the same for all layers of a step.
struct MlaStep {
  const MlaGeometry* geometry = nullptr;
  RopeStyle rope_style = RopeStyle::kInterleaved;
  double softmax_scale = 0;
  double lora_norm_eps = 1e-6;
  const float* cos = nullptr;  ///< [T, r/2]
  const float* sin = nullptr;  ///< [T, r/2]
  std::span<const AttentionItem> items;
  int64_t rows = 0;  ///< T, the sum of the items' rows
  AttentionPolicy policy;
  PathStats* stats = nullptr;
};

/// Activations for up to `max_rows` rows, made once per session.
struct MlaBuffers {
  MlaBuffers(const MlaGeometry& geometry, CacheLayout layout, int64_t max_rows,
             int64_t max_sequences);
  int64_t bytes() const;

  FloatBuffer q;        // [T, H, n + r]
  FloatBuffer q_a;      // [T, Rq]
  FloatBuffer kv_a;     // [T, Rk + r]
  FloatBuffer kv;       // [T, H, n + v], decompressed caches only
  FloatBuffer context;  // [T, H, v]
  AttentionWorkspace workspace;
};

/// residual [T, D] += o_proj(attention(x)); x [T, D] is already normed. Writes the rows' cache
/// entries of `layer`. Formulas: docs/mla.md section 2.
void MlaAttention(OpContext& context, const MlaStep& step, const MlaWeights& weights,
                  const LayerFold& fold, int64_t layer, MlaBuffers& buffers, const float* x,
                  float* residual);

}  // namespace mla

#endif  // MLA_LAYERS_MLA_ATTENTION_H_
