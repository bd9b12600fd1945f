// Feed-forward blocks: one SwiGLU MLP, or routed and shared experts as one pass over their weights.
// Called by: layers/decoder_layer. Thread-safety: one call per context.
#ifndef MLA_LAYERS_MLP_H_
#define MLA_LAYERS_MLP_H_

#include <cstdint>
#include <vector>

#include "layers/moe_router.h"
#include "layers/weights.h"
#include "ops/context.h"

namespace mla {

/// Activations for up to max_rows rows, made once per session.
struct MlpBuffers {
  /// `dense_width`: widest dense or shared MLP; `expert_width`: of a routed expert.
  MlpBuffers(const RouterConfig& router, int64_t dense_width, int64_t expert_width,
             int64_t max_rows);
  int64_t bytes() const;

  FloatBuffer gate;          // [max_rows, dense_width]
  FloatBuffer logits;        // [max_rows, E]
  FloatBuffer expert_gate;   // [max_rows · k, expert_width], rows grouped by expert
  FloatBuffer weights;       // [max_rows · k], per (token, slot)
  std::vector<int32_t> ids;  // [max_rows · k], per (token, slot)
  // By expert: rows first[e] .. first[e+1] of the grouped order, with token and weight of each.
  std::vector<int32_t> first;     // [E + 1]
  std::vector<int32_t> tokens;    // [max_rows · k]
  std::vector<float> row_weight;  // [max_rows · k]
  std::vector<int32_t> active;    // experts with at least one token, ascending
};

/// Floats of thread scratch that Mlp and Moe need.
int64_t MlpScratchFloats(const RouterConfig& router);

/// residual [rows, D] += down(silu(gate x) · up x); x [rows, D].
void Mlp(OpContext& context, const MlpWeights& weights, MlpBuffers& buffers, const float* x,
         int64_t rows, int64_t hidden, float* residual);

/// residual [rows, D] += sum over the chosen experts of weight · expert(x), in ascending expert id,
/// then + shared(x). Each expert's weights are read once per call.
void Moe(OpContext& context, const RouterConfig& router, const MoeWeights& weights,
         MlpBuffers& buffers, const float* x, int64_t rows, int64_t hidden, float* residual);

}  // namespace mla

#endif  // MLA_LAYERS_MLP_H_
