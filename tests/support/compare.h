// Measures of how far two arrays are apart.
// Called by: tests. Thread-safety: stateless.
// A NaN or infinity that only one side has counts as infinitely far.
#ifndef MLA_TESTS_SUPPORT_COMPARE_H_
#define MLA_TESTS_SUPPORT_COMPARE_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace mla {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
/// Half a unit in the last place of 1: the largest relative error of one rounding.
inline constexpr double kRoundF32 = 0x1p-24;
inline constexpr double kRoundF16 = 0x1p-11;
inline constexpr double kRoundBf16 = 0x1p-9;

/// max |got - want|.
template <typename G, typename W>
double MaxError(const std::vector<G>& got, const std::vector<W>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double a = static_cast<double>(got[i]);
    const double b = static_cast<double>(want[i]);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double error = std::abs(a - b);
    worst = std::isfinite(error) ? std::max(worst, error) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

/// max |got - want| / max |want|, the measure of docs/mla.md section 12.
template <typename G, typename W>
double RelativeError(const std::vector<G>& got, const std::vector<W>& want) {
  double largest = 0;
  for (const W& w : want) largest = std::max(largest, std::abs(static_cast<double>(w)));
  return MaxError(got, want) / std::max(largest, 1e-300);
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline bool HasNaN(const std::vector<float>& x) {
  return std::any_of(x.begin(), x.end(), [](float v) { return std::isnan(v); });
}

inline bool Finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_COMPARE_H_
