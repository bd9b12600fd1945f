// Which experts a token visits, and with what weight.
// Called by: layers/moe, model (config fills RouterConfig). Thread-safety: stateless.
#ifndef MLA_LAYERS_MOE_ROUTER_H_
#define MLA_LAYERS_MOE_ROUTER_H_

#include <cstdint>

namespace mla {

enum class RouterScore { kSoftmax, kSigmoid };
enum class GroupScore { kMax, kTop2Sum };
enum class MaskedGroups { kZero, kMinusInfinity };

struct RouterConfig {
  int64_t experts = 0;            ///< E; 0: the model has no MoE layers
  int64_t experts_per_token = 0;  ///< k
  int64_t groups = 1;             ///< E / groups contiguous experts each; 1: no grouping
  int64_t groups_kept = 1;
  RouterScore score = RouterScore::kSoftmax;
  GroupScore group_score = GroupScore::kMax;
  MaskedGroups masked = MaskedGroups::kZero;
  bool has_bias = false;   ///< e_score_correction_bias, for the selection only
  bool normalize = false;  ///< weights /= (sum + 1e-20)
  double scaling = 1;      ///< after normalisation
};

/// One token. logits [E] fp32; bias [E] or null; ids and weights [k]. `scratch` holds 3·E floats.
/// A NaN among the logits makes all weights NaN. Ties go to the lower expert id. ids come sorted
/// ascending, so that the sum over experts has one order however the scores fell.
void RouteToken(const RouterConfig& config, const float* logits, const float* bias, int32_t* ids,
                float* weights, float* scratch);

}  // namespace mla

#endif  // MLA_LAYERS_MOE_ROUTER_H_
