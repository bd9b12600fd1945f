#include "layers/moe_router.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mla {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

constexpr float kTaken = std::numeric_limits<float>::quiet_NaN();

// Index of the largest of x[0, n) that is not taken; the lowest such index among equals.
int64_t ArgMax(const float* x, int64_t n) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
  }
  return best;
}

float GroupScoreOf(GroupScore kind, const float* x, int64_t n) {
  float first = kMinusInfinity;
  float second = kMinusInfinity;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] > first) {
      second = first;
      first = x[i];
    } else if (x[i] > second) {
      second = x[i];
    }
  }
  return kind == GroupScore::kMax ? first : first + second;
}

// Overwrites the choice scores of all groups but the best groups_kept. `group` holds G floats.
void MaskGroups(const RouterConfig& config, float* choice, float* group) {
  const int64_t size = config.experts / config.groups;
  for (int64_t g = 0; g < config.groups; ++g) {
    group[g] = GroupScoreOf(config.group_score, choice + g * size, size);
  }
  for (int64_t kept = 0; kept < config.groups_kept; ++kept) {
    group[ArgMax(group, config.groups)] = kTaken;
  }
  const float masked = config.masked == MaskedGroups::kZero ? 0.0f : kMinusInfinity;
  for (int64_t g = 0; g < config.groups; ++g) {
    if (std::isnan(group[g])) continue;
    std::fill(choice + g * size, choice + (g + 1) * size, masked);
  }
}

}  // namespace

void RouteToken(const RouterConfig& config, const float* logits, const float* bias, int32_t* ids,
                float* weights, float* scratch) {
  const int64_t experts = config.experts;
  const int64_t k = config.experts_per_token;
  float* score = scratch;             // [E] unbiased
  float* choice = scratch + experts;  // [E] what the selection sees
  float* group = scratch + 2 * experts;
  if (config.score == RouterScore::kSoftmax) {
    const float max = *std::max_element(logits, logits + experts);
    float sum = 0;
    for (int64_t e = 0; e < experts; ++e) sum += score[e] = std::exp(logits[e] - max);
    for (int64_t e = 0; e < experts; ++e) score[e] /= sum;
  } else {
    for (int64_t e = 0; e < experts; ++e) score[e] = 1 / (1 + std::exp(-logits[e]));
  }
  bool broken = false;
  for (int64_t e = 0; e < experts; ++e) {
    choice[e] = score[e] + (bias != nullptr ? bias[e] : 0.0f);
    // NaN is the mark of a taken expert, so a broken logit must not carry it into the selection.
    if (std::isnan(choice[e])) {
      broken = true;
      choice[e] = kMinusInfinity;
    }
  }
  if (config.groups > 1) MaskGroups(config, choice, group);
  for (int64_t i = 0; i < k; ++i) {
    const int64_t best = ArgMax(choice, experts);
    ids[i] = static_cast<int32_t>(best);
    choice[best] = kTaken;
  }
  std::sort(ids, ids + k);
  float sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += weights[i] = score[ids[i]];
  const float scale = static_cast<float>(config.scaling);
  for (int64_t i = 0; i < k; ++i) {
    if (config.normalize) weights[i] /= sum + 1e-20f;
    weights[i] *= scale;
    // It must reach the output, also if its expert was not chosen.
    if (broken) weights[i] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace mla
