#include "kernels/elementwise.h"

#include <cmath>

#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "support/compare.h"
#include "support/random.h"

namespace mla {
namespace {

// Around every vector length, and a few long ones.
constexpr int64_t kLengths[] = {1,  2,  3,  4,  5,  7,  8,  9,   15,  16,
                                17, 31, 32, 33, 63, 64, 65, 100, 512, 1537};
constexpr float kMark = -777;

const KernelTable* const kTables[] = {&FastKernels(), &ReferenceKernels()};

// x at an odd address, with a marked element on either side.
struct Padded {
  explicit Padded(const std::vector<float>& x) : all(1, kMark), n(static_cast<int64_t>(x.size())) {
    all.insert(all.end(), x.begin(), x.end());
    all.push_back(kMark);
  }
  float* data() { return all.data() + 1; }
  std::vector<float> values() const {
    EXPECT_EQ(all.front(), kMark) << "wrote before the start";
    EXPECT_EQ(all.back(), kMark) << "wrote past the end";
    return {all.begin() + 1, all.end() - 1};
  }
  std::vector<float> all;
  int64_t n;
};

TEST(RmsNorm, MatchesTheFormula) {
  Random random(1);
  for (const KernelTable* kernels : kTables) {
    for (const int64_t n : kLengths) {
      for (const double scale : {1e-4, 1.0, 1e4}) {
        const std::vector<float> x = random.Normals(n, scale);
        const std::vector<float> w = random.Normals(n);
        double squares = 0;
        for (const float v : x) squares += static_cast<double>(v) * v;
        std::vector<double> want;
        for (size_t i = 0; i < x.size(); ++i) {
          want.push_back(w[i] * (x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-6f)));
        }
        Padded y(x);
        kernels->rms_norm(y.data(), w.data(), 1e-6f, y.data(), n);  // in place
        EXPECT_LT(RelativeError(y.values(), want), 4 * kRoundF32 * std::sqrt(n + 4.0)) << n;
        Padded other(std::vector<float>(x.size(), 0));
        kernels->rms_norm(x.data(), w.data(), 1e-6f, other.data(), n);
        EXPECT_TRUE(SameBits(other.values(), y.values())) << n;
      }
    }
  }
}

TEST(RmsNorm, EpsDecidesForZeros) {
  for (const KernelTable* kernels : kTables) {
    std::vector<float> x(9, 0), w(9, 1), y(9, 5);
    kernels->rms_norm(x.data(), w.data(), 1e-5f, y.data(), 9);
    EXPECT_EQ(y, x);
    x.assign(9, 1e-3f);
    kernels->rms_norm(x.data(), w.data(), 1e-5f, y.data(), 9);
    for (const float v : y) EXPECT_NEAR(v, 1e-3 / std::sqrt(1e-6 + 1e-5), 1e-6);
  }
}

TEST(RotatePairs, BothStylesAgainstTheComplexProduct) {
  Random random(2);
  for (const KernelTable* kernels : kTables) {
    for (const int64_t n : {2, 4, 6, 8, 10, 16, 32, 34, 64, 66, 128}) {
      std::vector<float> cos, sin;
      for (int64_t i = 0; i < n / 2; ++i) {
        const double angle = random.Uniform() * 100;
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
      for (const bool half : {false, true}) {
        const std::vector<float> x = random.Normals(n);
        std::vector<double> want(static_cast<size_t>(n));
        for (int64_t i = 0; i < n / 2; ++i) {
          const size_t a = static_cast<size_t>(half ? i : 2 * i);
          const size_t b = static_cast<size_t>(half ? i + n / 2 : 2 * i + 1);
          const double c = cos[static_cast<size_t>(i)];
          const double s = sin[static_cast<size_t>(i)];
          want[a] = x[a] * c - x[b] * s;
          want[b] = x[b] * c + x[a] * s;
        }
        Padded y(x);
        kernels->rotate_pairs(y.data(), cos.data(), sin.data(), n, half);
        EXPECT_LT(RelativeError(y.values(), want), 4 * kRoundF32) << n << " half " << half;
      }
    }
  }
}

TEST(SwiGlu, MatchesTheFormulaAlsoFarOut) {
  Random random(3);
  for (const KernelTable* kernels : kTables) {
    for (const int64_t n : kLengths) {
      std::vector<float> gate = random.Normals(n, 3);
      const std::vector<float> up = random.Normals(n);
      for (int64_t i = 0; i < n; ++i) {
        const float far[] = {100, -100, 88.8f, -88.8f, 0, -20};
        if (random.Below(2) == 0) gate[static_cast<size_t>(i)] = far[random.Below(6)];
      }
      for (const int out : {0, 1}) {  // over the gate, over up
        Padded g(gate), u(up);
        kernels->swiglu(g.data(), u.data(), out == 0 ? g.data() : u.data(), n);
        const std::vector<float> got = out == 0 ? g.values() : u.values();
        for (size_t i = 0; i < got.size(); ++i) {
          const double x = gate[i];
          const double want = x / (1 + std::exp(-x)) * up[i];
          // exp of a large argument is off by its size times one rounding.
          ASSERT_NEAR(got[i], want, (8 + std::abs(x)) * kRoundF32 * std::abs(want) + 1e-36)
              << "gate " << x << " up " << up[i];
        }
      }
    }
  }
}

TEST(SwiGlu, InfinityAndNaN) {
  for (const KernelTable* kernels : kTables) {
    for (const int64_t at : {0, 5, 16, 18}) {
      std::vector<float> gate(19, 1), up(19, 1), y(19);
      gate[static_cast<size_t>(at)] = kNaN;
      kernels->swiglu(gate.data(), up.data(), y.data(), 19);
      for (int64_t i = 0; i < 19; ++i) EXPECT_EQ(std::isnan(y[static_cast<size_t>(i)]), i == at);
      gate[static_cast<size_t>(at)] = 1000;  // exp(-1000) underflows, silu is the gate itself
      kernels->swiglu(gate.data(), up.data(), y.data(), 19);
      EXPECT_EQ(y[static_cast<size_t>(at)], 1000);
      gate[static_cast<size_t>(at)] = -1000;
      kernels->swiglu(gate.data(), up.data(), y.data(), 19);
      EXPECT_NEAR(y[static_cast<size_t>(at)], 0, 1e-30);
      gate[static_cast<size_t>(at)] = 1;
      up[static_cast<size_t>(at)] = kNaN;
      kernels->swiglu(gate.data(), up.data(), y.data(), 19);
      EXPECT_TRUE(std::isnan(y[static_cast<size_t>(at)]));
    }
  }
}

TEST(Axpy, AddsOnceEverywhere) {
  Random random(4);
  for (const KernelTable* kernels : kTables) {
    for (const int64_t n : kLengths) {
      const std::vector<float> x = random.Normals(n);
      const std::vector<float> before = random.Normals(n);
      Padded y(before);
      kernels->axpy(-1.75f, x.data(), y.data(), n);
      const std::vector<float> got = y.values();
      for (size_t i = 0; i < got.size(); ++i) {
        const double want = before[i] - 1.75 * x[i];
        ASSERT_NEAR(got[i], want, 2 * kRoundF32 * (std::abs(before[i]) + 1.75 * std::abs(x[i])));
      }
    }
  }
}

TEST(Softmax, SumsToOneWhateverTheShift) {
  Random random(5);
  for (const KernelTable* kernels : kTables) {
    for (const int64_t n : kLengths) {
      for (const double shift : {0.0, 1e4, -1e4}) {
        std::vector<float> x = random.Normals(n, 4);
        for (float& v : x) v += static_cast<float>(shift);
        double max = -1e300, sum = 0;
        for (const float v : x) max = std::max<double>(max, v);
        for (const float v : x) sum += std::exp(v - max);
        std::vector<double> want;
        for (const float v : x) want.push_back(std::exp(v - max) / sum);
        Padded y(x);
        kernels->softmax(y.data(), n);
        EXPECT_LT(RelativeError(y.values(), want), 1e-6 + 4 * kRoundF32 * std::sqrt(n)) << n;
      }
    }
    std::vector<float> equal(7, 1e30f);
    kernels->softmax(equal.data(), 7);
    for (const float v : equal) EXPECT_NEAR(v, 1.0 / 7, 1e-7);
    std::vector<float> masked = {-kInfinity, 0, -kInfinity};
    kernels->softmax(masked.data(), 3);
    EXPECT_EQ(masked, (std::vector<float>{0, 1, 0}));
  }
}

TEST(AllFinite, FindsOneBadElementAnywhere) {
  for (const KernelTable* kernels : kTables) {
    EXPECT_TRUE(kernels->all_finite(nullptr, 0));
    for (const int64_t n : {1, 3, 8, 16, 19, 40}) {
      // The largest numbers must not overflow into a false alarm.
      std::vector<float> x(static_cast<size_t>(n), std::numeric_limits<float>::max());
      for (size_t i = 0; i < x.size(); i += 2) x[i] = -x[i];
      EXPECT_TRUE(kernels->all_finite(x.data(), n)) << n;
      for (int64_t i = 0; i < n; ++i) {
        const float good = x[static_cast<size_t>(i)];
        for (const float bad : {kNaN, kInfinity, -kInfinity}) {
          x[static_cast<size_t>(i)] = bad;
          EXPECT_FALSE(kernels->all_finite(x.data(), n)) << bad << " at " << i << " of " << n;
        }
        x[static_cast<size_t>(i)] = good;
      }
      // Nothing beyond n is looked at.
      x.push_back(kNaN);
      EXPECT_TRUE(kernels->all_finite(x.data(), n));
    }
  }
}

}  // namespace
}  // namespace mla
