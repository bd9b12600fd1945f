// Storage formats to fp32 and back, against definitions written out here.
#include <bit>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "support/compare.h"

namespace mla {
namespace {

constexpr int kPatterns = 65536;

struct Format {
  Elem type;
  int mantissa_bits;
  int bias;
  int exponents;  // the largest exponent field: infinity and NaN
};
constexpr Format kFormats[] = {{Elem::kF16, 10, 15, 31}, {Elem::kBf16, 7, 127, 255}};

// IEEE 754, section 3.4.
double Decode(const Format& f, int bits) {
  const int exponent = (bits & 0x7fff) >> f.mantissa_bits;
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == f.exponents) return mantissa != 0 ? kNaN : sign * kInfinity;
  const int hidden = exponent != 0 ? 1 << f.mantissa_bits : 0;
  return sign * std::ldexp(hidden + mantissa, std::max(exponent, 1) - f.bias - f.mantissa_bits);
}

std::vector<uint16_t> AllPatterns() {
  std::vector<uint16_t> bits(kPatterns);
  std::iota(bits.begin(), bits.end(), uint16_t{0});
  return bits;
}

TEST(Convert, ToFloatIsExactForEveryPattern) {
  const std::vector<uint16_t> bits = AllPatterns();
  for (const Format& f : kFormats) {
    for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
      std::vector<float> values(kPatterns);
      kernels->to_float(bits.data(), f.type, values.data(), kPatterns);
      for (int i = 0; i < kPatterns; ++i) {
        const double want = Decode(f, i);
        const float got = values[static_cast<size_t>(i)];
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got)) << kernels->name << " pattern " << i;
        } else {
          ASSERT_EQ(got, want) << kernels->name << " pattern " << i;
          ASSERT_EQ(std::signbit(got), (i & 0x8000) != 0) << kernels->name << " pattern " << i;
        }
      }
    }
  }
}

// The vector body, the tail and every alignment give the same.
TEST(Convert, ToFloatAtEveryLengthAndAlignment) {
  std::vector<uint16_t> bits(80);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i * 797 + 3);
  for (const Format& f : kFormats) {
    for (int64_t n = 0; n <= 70; ++n) {
      for (int64_t shift = 0; shift < 3; ++shift) {
        std::vector<float> got(81, -7);
        ToFloat(bits.data() + shift, f.type, got.data() + 1, n);
        EXPECT_EQ(got[0], -7);
        EXPECT_EQ(got[static_cast<size_t>(n + 1)], -7) << "wrote past the end";
        for (int64_t i = 0; i < n; ++i) {
          const double want = Decode(f, bits[static_cast<size_t>(i + shift)]);
          if (!std::isnan(want)) {
            ASSERT_EQ(got[static_cast<size_t>(i + 1)], want);
          }
        }
      }
    }
  }
}

TEST(Convert, FromFloatGivesBackEveryPattern) {
  for (const Format& f : kFormats) {
    for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
      std::vector<float> values(kPatterns);
      for (int i = 0; i < kPatterns; ++i) {
        values[static_cast<size_t>(i)] = static_cast<float>(Decode(f, i));
      }
      std::vector<uint16_t> bits(kPatterns);
      kernels->from_float(values.data(), f.type, bits.data(), kPatterns);
      for (int i = 0; i < kPatterns; ++i) {
        const uint16_t got = bits[static_cast<size_t>(i)];
        if (std::isnan(Decode(f, i))) {
          ASSERT_TRUE(std::isnan(Decode(f, got))) << kernels->name << " pattern " << i;
        } else {
          ASSERT_EQ(got, i) << kernels->name;
        }
      }
    }
  }
}

// Between every two neighbours: just below the middle, the middle, just above it. Covers the
// subnormals, the step to normal numbers and the overflow to infinity.
TEST(Convert, FromFloatRoundsToNearestEven) {
  for (const Format& f : kFormats) {
    std::vector<float> values;
    std::vector<uint16_t> want;
    const int infinity = f.exponents << f.mantissa_bits;
    for (int i = 0; i < infinity; ++i) {
      const double low = Decode(f, i);
      // Above the largest number, the place of 2^(emax + 1) decides.
      const double high = i + 1 < infinity ? Decode(f, i + 1) : 2 * low - Decode(f, i - 1);
      const double middle = low + (high - low) / 2;
      const float exact = static_cast<float>(middle);
      if (static_cast<double>(exact) != middle) continue;  // below fp32's own subnormals
      const auto add = [&](float value, int pattern) {
        for (const int sign : {0, 0x8000}) {
          values.push_back(sign != 0 ? -value : value);
          want.push_back(static_cast<uint16_t>(pattern | sign));
        }
      };
      add(std::nextafter(exact, 0.0f), i);
      add(exact, i + (i & 1));
      add(std::nextafter(exact, kInfinity), i + 1);
    }
    ASSERT_GT(values.size(), 6u * 31000);
    for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
      std::vector<uint16_t> got(values.size());
      kernels->from_float(values.data(), f.type, got.data(), static_cast<int64_t>(values.size()));
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(got[i], want[i]) << kernels->name << " value " << values[i];
      }
    }
  }
}

TEST(Convert, FromFloatBeyondTheRange) {
  const float values[] = {65519.99f, 65520.0f, 1e30f, -1e30f, kInfinity, -kInfinity, 1e-30f, -0.0f};
  const uint16_t want[] = {0x7bff, 0x7c00, 0x7c00, 0xfc00, 0x7c00, 0xfc00, 0, 0x8000};
  uint16_t got[8];
  FromFloat(values, Elem::kF16, got, 8);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(got[i], want[i]) << values[i];
  // NaNs whose payload lies in the bits that are cut off stay NaN.
  for (const uint32_t payload : {0x7f800001u, 0xff800001u, 0x7fbfffffu, 0x7fffffffu}) {
    const float nan = std::bit_cast<float>(payload);
    for (const Format& f : kFormats) {
      uint16_t bits = 0;
      FromFloat(&nan, f.type, &bits, 1);
      EXPECT_TRUE(std::isnan(Decode(f, bits))) << payload;
    }
  }
}

TEST(Convert, F32IsCopied) {
  const std::vector<float> x = {1, -0.0f, 1e-42f, kInfinity, 3.25f};
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    std::vector<float> y(5), z(5);
    kernels->to_float(x.data(), Elem::kF32, y.data(), 5);
    kernels->from_float(x.data(), Elem::kF32, z.data(), 5);
    EXPECT_TRUE(SameBits(x, y));
    EXPECT_TRUE(SameBits(x, z));
  }
}

}  // namespace
}  // namespace mla
