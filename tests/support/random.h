// Deterministic random numbers: the same on every machine and standard library.
// Called by: tests. Thread-safety: one thread per generator.
// Not for statistics: a splitmix64 sequence and the Box-Muller transform.
#ifndef MLA_TESTS_SUPPORT_RANDOM_H_
#define MLA_TESTS_SUPPORT_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace mla {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, n).
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  /// In (0, 1).
  double Uniform() { return (static_cast<double>(Next() >> 12) + 0.5) * 0x1p-52; }
  double Normal() {
    return std::sqrt(-2 * std::log(Uniform())) * std::cos(2 * std::numbers::pi * Uniform());
  }
  std::vector<float> Normals(int64_t count, double deviation = 1) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = static_cast<float>(Normal() * deviation);
    return values;
  }

 private:
  uint64_t state_;
};

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_RANDOM_H_
