#include "base/float16.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace mla {
namespace {

// Nearest representable value by search: the oracle of both roundings. `widen` maps bits to values
// in ascending order over [0, top].
template <typename Widen>
uint16_t NearestBits(double value, uint16_t top, Widen widen) {
  uint16_t low = 0;
  uint16_t high = top;
  while (high - low > 1) {
    const uint16_t middle = static_cast<uint16_t>((low + high) / 2);
    (static_cast<double>(widen(middle)) <= value ? low : high) = middle;
  }
  const double down = value - widen(low);
  const double up = widen(high) - value;
  if (down != up) return down < up ? low : high;
  return low % 2 == 0 ? low : high;
}

TEST(Float16, EveryHalfRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = Fp16ToFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Fp16ToFloat(FloatToFp16(value))));
    } else {
      EXPECT_EQ(FloatToFp16(value), half);
    }
    const float brain = Bf16ToFloat(half);
    if (std::isnan(brain)) {
      EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(brain))));
    } else {
      EXPECT_EQ(FloatToBf16(brain), half);
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = std::bit_cast<float>(state & 0x7fffffffu);
    if (!std::isfinite(value)) continue;
    if (value < 65504.0f) {
      EXPECT_EQ(FloatToFp16(value), NearestBits(value, 0x7bff, Fp16ToFloat));
    }
    if (value < 3e38f) {
      EXPECT_EQ(FloatToBf16(value), NearestBits(value, 0x7f7f, Bf16ToFloat));
    }
    EXPECT_EQ(FloatToFp16(-value), FloatToFp16(value) | 0x8000);
  }
}

TEST(Float16, Edges) {
  EXPECT_EQ(FloatToFp16(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToFp16(65520.0f), 0x7c00);  // halfway to 2^16: up to even, infinity
  EXPECT_EQ(FloatToFp16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(FloatToFp16(0x1p-24f), 1);
  EXPECT_EQ(FloatToFp16(0x1p-25f), 0);  // halfway to zero: even
  EXPECT_EQ(FloatToFp16(0x1.8p-25f), 1);
  EXPECT_EQ(FloatToFp16(-0.0f), 0x8000);
  EXPECT_EQ(FloatToBf16(1.00390625f), 0x3f80);  // 1 + 2^-8, halfway: even
  EXPECT_EQ(FloatToBf16(1.01171875f), 0x3f82);  // 1 + 3·2^-8, halfway: even
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace mla
