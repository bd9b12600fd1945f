#include "ops/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mla {

double YarnMagnitude(double scale, double coefficient) {
  return scale <= 1 ? 1 : 0.1 * coefficient * std::log(scale) + 1;
}

std::vector<float> RopeFrequencies(const RopeConfig& config, int64_t dim) {
  const auto plain = [&](int64_t i) {
    return std::pow(config.theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
  };
  std::vector<float> freq(static_cast<size_t>(dim / 2));
  double low = 0;
  double high = 0;
  if (config.type == RopeType::kYarn) {
    // Dimension whose wavelength makes `beta` turns over the original context (YaRN, eq. 23).
    const auto correction = [&](double beta) {
      return static_cast<double>(dim) *
             std::log(static_cast<double>(config.original_max_positions) /
                      (beta * 2 * std::numbers::pi)) /
             (2 * std::log(config.theta));
    };
    low = correction(config.beta_fast);
    high = correction(config.beta_slow);
    if (config.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(dim - 1));
    if (low == high) high += 0.001;
  }
  for (int64_t i = 0; i < dim / 2; ++i) {
    double f = plain(i);
    if (config.type == RopeType::kYarn) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      f = f / config.factor * ramp + f * (1 - ramp);
    }
    freq[static_cast<size_t>(i)] = static_cast<float>(f);
  }
  return freq;
}

void RopeRows(const RopeConfig& config, std::span<const float> inv_freq,
              std::span<const int64_t> positions, float* cos, float* sin) {
  for (const int64_t position : positions) {
    for (const float freq : inv_freq) {
      const float angle = static_cast<float>(position) * freq;
      *cos++ = static_cast<float>(std::cos(static_cast<double>(angle)) * config.attention_factor);
      *sin++ = static_cast<float>(std::sin(static_cast<double>(angle)) * config.attention_factor);
    }
  }
}

}  // namespace mla
