// MergeStates of both kernel families against a plain sum in double. Sizes, chains and partitions
// are tested with the op (tests/attention/merge_test.cc).
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/attend.h"
#include "kernels/kernel_table.h"
#include "support/compare.h"
#include "support/random.h"

namespace mla {
namespace {

TEST(MergeStates, MatchesTheFormula) {
  Random random(6);
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const int64_t dim : {1, 3, 8, 16, 33, 512}) {
      constexpr int64_t kHeads = 3;
      const std::vector<int32_t> indptr = {0, 1, 1, 8};  // one, none, seven
      const std::vector<float> v = random.Normals(8 * kHeads * dim);
      const std::vector<float> lse = random.Normals(8 * kHeads, 5);
      std::vector<float> out(static_cast<size_t>(3 * kHeads * dim), kNaN);
      std::vector<float> lse_out(3 * kHeads, kNaN);
      for (int64_t output = 0; output < 3; ++output) {
        for (int64_t head = 0; head < kHeads; ++head) {
          MergeArgs args{v.data(), lse.data(), indptr.data(), out.data(), lse_out.data(),
                         kHeads,   dim,        output,        head};
          kernels->merge_states(args);
          double total = 0;
          std::vector<double> sum(static_cast<size_t>(dim), 0);
          for (int32_t i = indptr[output]; i < indptr[output + 1]; ++i) {
            const double w = std::exp2(lse[static_cast<size_t>(i * kHeads + head)]);
            total += w;
            for (int64_t x = 0; x < dim; ++x) {
              sum[static_cast<size_t>(x)] += w * v[(i * kHeads + head) * dim + x];
            }
          }
          const size_t at = static_cast<size_t>(output * kHeads + head);
          for (int64_t x = 0; x < dim; ++x) {
            const double want = total == 0 ? 0 : sum[static_cast<size_t>(x)] / total;
            ASSERT_NEAR(out[at * static_cast<size_t>(dim) + static_cast<size_t>(x)], want, 2e-6);
          }
          if (total == 0) {
            EXPECT_EQ(lse_out[at], -kInfinity);
          } else {
            EXPECT_NEAR(lse_out[at], std::log2(total), 2e-6 * (1 + std::abs(std::log2(total))));
          }
        }
      }
    }
  }
}

// Log-sum-exps far outside the range of exp2.
TEST(MergeStates, OnlyDifferencesOfLseCount) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const float base : {0.0f, 14000.0f, -14000.0f}) {
      const float v[] = {1, 3};
      const float lse[] = {base, base + 1};
      const int32_t indptr[] = {0, 2};
      float out = 0, lse_out = 0;
      kernels->merge_states({v, lse, indptr, &out, &lse_out, 1, 1, 0, 0});
      EXPECT_NEAR(out, (1 + 2 * 3) / 3.0, 1e-6) << base;
      EXPECT_NEAR(lse_out, base + std::log2(3.0), 1e-3 + std::abs(base) * kRoundF32) << base;
    }
  }
}

}  // namespace
}  // namespace mla
