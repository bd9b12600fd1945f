#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace mla {
namespace {

constexpr size_t kPenaltyWindow = 64;

// splitmix64: a counter-based generator, so that one draw needs no state.
double Uniform(uint64_t seed, int64_t position) {
  uint64_t z = seed + 0x9e3779b97f4a7c15ull * (static_cast<uint64_t>(position) + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

void Penalise(std::vector<float>& logits, std::span<const int32_t> history, double penalty) {
  if (penalty == 1) return;
  const size_t from = history.size() > kPenaltyWindow ? history.size() - kPenaltyWindow : 0;
  std::vector<int32_t> seen(history.begin() + static_cast<int64_t>(from), history.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const int32_t id : seen) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    float& x = logits[static_cast<size_t>(id)];
    x = static_cast<float>(x > 0 ? x / penalty : x * penalty);
  }
}

// Ids by descending logit, the best `count` of them.
std::vector<int32_t> Best(const std::vector<float>& logits, size_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto better = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto middle = ids.begin() + static_cast<int64_t>(count);
  std::partial_sort(ids.begin(), middle, ids.end(), better);
  ids.resize(count);
  return ids;
}

// exp(logit - best) of the ids, which are in descending order.
std::vector<double> Weights(const std::vector<float>& logits, const std::vector<int32_t>& ids,
                            double temperature) {
  std::vector<double> w;
  const double best = logits[static_cast<size_t>(ids[0])];
  for (const int32_t id : ids) {
    w.push_back(std::exp((logits[static_cast<size_t>(id)] - best) / temperature));
  }
  return w;
}

}  // namespace

void ValidateSampling(const SamplingOptions& o) {
  const auto check = [](bool ok, const char* name, double value, const char* expected) {
    if (!ok) Fail(ErrorCode::kUsage, "{} is {}; expected {}", name, value, expected);
  };
  check(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature,
        "a finite number of 0 or more");
  check(o.top_k >= 0, "top-k", static_cast<double>(o.top_k), "0 (off) or more");
  check(o.top_p > 0 && o.top_p <= 1, "top-p", o.top_p, "more than 0 and at most 1");
  check(o.min_p >= 0 && o.min_p <= 1, "min-p", o.min_p, "0 to 1");
  check(o.repeat_penalty > 0 && std::isfinite(o.repeat_penalty), "repeat-penalty", o.repeat_penalty,
        "a finite number above 0");
}

int32_t SampleToken(std::span<const float> logits, std::span<const int32_t> history,
                    int64_t position, const SamplingOptions& options) {
  ValidateSampling(options);
  Require(!logits.empty(), "SampleToken: no logits");
  if (options.temperature == 0 && options.repeat_penalty == 1) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::vector<float> x(logits.begin(), logits.end());
  Penalise(x, history, options.repeat_penalty);
  if (options.temperature == 0) {
    return static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
  }
  size_t count = x.size();
  if (options.top_k > 0) count = std::min(count, static_cast<size_t>(options.top_k));
  std::vector<int32_t> ids = Best(x, count);
  std::vector<double> w = Weights(x, ids, options.temperature);
  if (options.top_p < 1) {
    const double total = std::accumulate(w.begin(), w.end(), 0.0);
    double sum = 0;
    size_t keep = 0;
    while (keep < w.size() && sum < options.top_p * total) sum += w[keep++];
    ids.resize(std::max<size_t>(keep, 1));
  }
  if (options.min_p > 0) {
    size_t keep = 1;  // the best one always satisfies the bound, its weight being 1
    while (keep < ids.size() && w[keep] >= options.min_p) ++keep;
    ids.resize(keep);
  }
  w.resize(ids.size());
  double left = Uniform(options.seed, position) * std::accumulate(w.begin(), w.end(), 0.0);
  for (size_t i = 0; i < ids.size(); ++i) {
    left -= w[i];
    if (left < 0) return ids[i];
  }
  return ids.back();
}

}  // namespace mla
