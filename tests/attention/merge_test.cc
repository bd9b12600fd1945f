#include "attention/merge.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "support/attention_case.h"
#include "support/expect_error.h"

namespace mla {
namespace {

constexpr int64_t kHeads = 3, kDim = 21, kKeys = 37;

// Softmax over keys with given natural-log scores, of any subset, in double.
struct Softmax {
  explicit Softmax(uint64_t seed, double spread = 3) {
    Random random(seed);
    for (int64_t i = 0; i < kKeys * kHeads; ++i) scores.push_back(random.Normal() * spread);
    values = random.Normals(kKeys * kHeads * kDim);
  }
  // Appends the partial of these keys; lse in the given unit (natural: unit = 1).
  void Partial(const std::vector<int64_t>& keys, std::vector<float>& v, std::vector<float>& lse,
               double unit = std::log(2.0)) const {
    for (int64_t h = 0; h < kHeads; ++h) {
      double sum = 0;
      std::vector<double> out(kDim, 0);
      for (const int64_t key : keys) {
        const double p = std::exp(scores[static_cast<size_t>(key * kHeads + h)]);
        sum += p;
        for (int64_t x = 0; x < kDim; ++x) {
          out[static_cast<size_t>(x)] += p * values[(key * kHeads + h) * kDim + x];
        }
      }
      for (const double x : out) v.push_back(static_cast<float>(x / sum));
      lse.push_back(static_cast<float>(std::log(sum) / unit));
    }
  }
  std::vector<double> scores;
  std::vector<float> values;
};

std::vector<int64_t> Keys(int64_t begin, int64_t end) {
  std::vector<int64_t> keys(static_cast<size_t>(end - begin));
  std::iota(keys.begin(), keys.end(), begin);
  return keys;
}

struct Merged {
  std::vector<float> v, lse;
};

Merged Merge(const std::vector<float>& v, const std::vector<float>& lse,
             const std::vector<int32_t>& indptr, int threads = 2,
             const KernelTable& kernels = FastKernels()) {
  OpHarness harness(threads, 0, kernels);
  const size_t outputs = indptr.size() - 1;
  Merged m{std::vector<float>(outputs * kHeads * kDim, kNaN),
           std::vector<float>(outputs * kHeads, kNaN)};
  MergePartials(harness.context, v, lse, indptr, kHeads, kDim, m.v, m.lse);
  return m;
}

class MergeTest : public testing::Test {
 protected:
  MergeTest() { softmax_.Partial(Keys(0, kKeys), want_.v, want_.lse); }
  const Softmax softmax_{1};
  Merged want_;
};

TEST_F(MergeTest, ChunksGiveTheWhole) {
  for (const int64_t chunk : {1, 8, 16, 37, 64}) {
    std::vector<float> v, lse;
    int32_t partials = 0;
    for (int64_t at = 0; at < kKeys; at += chunk, ++partials) {
      softmax_.Partial(Keys(at, std::min(kKeys, at + chunk)), v, lse);
    }
    for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
      const Merged got = Merge(v, lse, {0, partials}, 2, *kernels);
      EXPECT_LT(RelativeError(got.v, want_.v), 2e-6) << chunk;
      EXPECT_LT(RelativeError(got.lse, want_.lse), 1e-6) << chunk;
    }
  }
}

TEST_F(MergeTest, AnyPartitionInAnyOrder) {
  Random random(2);
  for (int round = 0; round < 50; ++round) {
    // Keys at random into up to 12 parts, neighbours or not; parts in random order.
    const int64_t parts = 1 + random.Below(12);
    std::vector<std::vector<int64_t>> partition(static_cast<size_t>(parts));
    for (int64_t key = 0; key < kKeys; ++key) {
      partition[static_cast<size_t>(random.Below(parts))].push_back(key);
    }
    std::vector<float> v, lse;
    int32_t partials = 0;
    for (const auto& part : partition) {
      if (part.empty()) continue;
      softmax_.Partial(part, v, lse);
      ++partials;
    }
    const Merged got = Merge(v, lse, {0, partials});
    ASSERT_LT(RelativeError(got.v, want_.v), 2e-6) << "round " << round;
    ASSERT_LT(RelativeError(got.lse, want_.lse), 1e-6) << "round " << round;
  }
}

TEST_F(MergeTest, MergesChain) {
  std::vector<float> v, lse;
  for (int64_t at = 0; at < kKeys; at += 4) {
    softmax_.Partial(Keys(at, std::min(kKeys, at + 4)), v, lse);  // ten of them
  }
  for (const std::vector<int32_t>& groups :
       {std::vector<int32_t>{0, 3, 7, 10}, {0, 1, 10}, {0, 9, 9, 10}, {0, 2, 4, 6, 8, 10}}) {
    const Merged first = Merge(v, lse, groups);
    const Merged second = Merge(first.v, first.lse, {0, static_cast<int32_t>(groups.size()) - 1});
    EXPECT_LT(RelativeError(second.v, want_.v), 2e-6);
    EXPECT_LT(RelativeError(second.lse, want_.lse), 1e-6);
  }
}

// The unit fails silently, so the numbers must tell.
TEST_F(MergeTest, NaturalLogInputIsFarOff) {
  std::vector<float> v, log2_lse, natural_lse, ignored;
  for (int64_t at = 0; at < kKeys; at += 8) {
    softmax_.Partial(Keys(at, std::min(kKeys, at + 8)), v, log2_lse);
    softmax_.Partial(Keys(at, std::min(kKeys, at + 8)), ignored, natural_lse, 1);
  }
  EXPECT_LT(RelativeError(Merge(v, log2_lse, {0, 5}).v, want_.v), 1e-5);
  EXPECT_GT(RelativeError(Merge(v, natural_lse, {0, 5}).v, want_.v), 1e-3);
  EXPECT_NEAR(kLog2E, std::log2(std::exp(1.0)), 1e-7);
}

TEST_F(MergeTest, PartialsWithoutWeightDoNothing) {
  for (const float none : {-kInfinity, kNaN}) {
    for (const size_t at : {0u, 1u, 2u}) {
      std::vector<float> v, lse;
      for (size_t i = 0; i < 3; ++i) {
        if (i == at) {
          v.insert(v.end(), kHeads * kDim, kNaN);
          lse.insert(lse.end(), kHeads, none);
        }
        if (i < 2) softmax_.Partial(Keys(i == 0 ? 0 : 20, i == 0 ? 20 : kKeys), v, lse);
      }
      const Merged got = Merge(v, lse, {0, 3});
      EXPECT_LT(RelativeError(got.v, want_.v), 2e-6) << none << " at " << at;
      EXPECT_LT(RelativeError(got.lse, want_.lse), 1e-6);
    }
  }
}

TEST_F(MergeTest, NothingLeftGivesZeros) {
  std::vector<float> v, lse;
  softmax_.Partial(Keys(0, 5), v, lse);
  v.insert(v.end(), 2 * kHeads * kDim, kNaN);
  lse.insert(lse.end(), kHeads, -kInfinity);
  lse.insert(lse.end(), kHeads, kNaN);
  const Merged got = Merge(v, lse, {0, 0, 1, 1, 3});  // empty, one, empty, two without weight
  for (const size_t output : {0u, 2u, 3u}) {
    for (size_t i = 0; i < kHeads * kDim; ++i) EXPECT_EQ(got.v[output * kHeads * kDim + i], 0);
    for (size_t h = 0; h < kHeads; ++h) EXPECT_EQ(got.lse[output * kHeads + h], -kInfinity);
  }
  EXPECT_LT(RelativeError(std::vector<float>(got.v.begin() + kHeads * kDim,
                                             got.v.begin() + 2 * kHeads * kDim),
                          std::vector<float>(v.begin(), v.begin() + kHeads * kDim)),
            1e-6);
}

TEST_F(MergeTest, LseFarOutsideTheRangeOfExp2) {
  for (const float shift : {20000.0f, -20000.0f}) {
    std::vector<float> v, lse;
    softmax_.Partial(Keys(0, 20), v, lse);
    softmax_.Partial(Keys(20, kKeys), v, lse);
    for (float& x : lse) x += shift;
    const Merged got = Merge(v, lse, {0, 2});
    EXPECT_TRUE(Finite(got.v));
    EXPECT_LT(RelativeError(got.v, want_.v), 20000 * 2 * kRoundF32);
  }
}

TEST_F(MergeTest, ThreadsDoNotMatter) {
  std::vector<float> v, lse;
  for (int64_t at = 0; at < kKeys; ++at) softmax_.Partial(Keys(at, at + 1), v, lse);
  const std::vector<int32_t> indptr = {0, 5, 5, 20, 37};
  const Merged one = Merge(v, lse, indptr, 1);
  for (const int threads : {2, 3, 7}) {
    const Merged many = Merge(v, lse, indptr, threads);
    EXPECT_TRUE(SameBits(one.v, many.v));
    EXPECT_TRUE(SameBits(one.lse, many.lse));
  }
}

TEST_F(MergeTest, SizesAreChecked) {
  OpHarness harness;
  const std::vector<float> v(2 * kHeads * kDim), lse(2 * kHeads);
  std::vector<float> out(kHeads * kDim), lse_out(kHeads);
  const auto merge = [&](size_t v_n, size_t lse_n, std::vector<int32_t> indptr, size_t out_n,
                         size_t lse_out_n, int64_t heads = kHeads, int64_t dim = kDim) {
    MergePartials(harness.context, std::span(v).first(v_n), std::span(lse).first(lse_n), indptr,
                  heads, dim, std::span(out).first(out_n), std::span(lse_out).first(lse_out_n));
  };
  const size_t nv = v.size(), nl = lse.size(), no = out.size(), nlo = lse_out.size();
  EXPECT_NO_THROW(merge(nv, nl, {0, 2}, no, nlo));
  EXPECT_NO_THROW(merge(nv, nl, {0, 2}, no, 0)) << "lse_out may be left out";
  EXPECT_NO_THROW(merge(0, 0, {0}, 0, 0)) << "no output";
  const auto bad = [&](std::initializer_list<const char*> parts, auto call) {
    ExpectError(ErrorCode::kUsage, parts, call);
  };
  bad({"v_in", "125", "126"}, [&] { merge(nv - 1, nl, {0, 2}, no, nlo); });
  bad({"lse_in", "5", "6"}, [&] { merge(nv, nl - 1, {0, 2}, no, nlo); });
  bad({"v_out", "62", "63"}, [&] { merge(nv, nl, {0, 2}, no - 1, nlo); });
  bad({"lse_out", "2", "3"}, [&] { merge(nv, nl, {0, 2}, no, nlo - 1); });
  bad({"v_in"}, [&] { merge(nv, nl, {0, 3}, no, nlo); });
  bad({"offset"}, [&] { merge(nv, nl, {1, 2}, no, nlo); });
  bad({"offset"}, [&] { merge(nv, nl, {}, no, nlo); });
  bad({"offset 2", "1 after 2"}, [&] { merge(nv, nl, {0, 2, 1}, no, nlo); });
  bad({"-1 after 0"}, [&] { merge(nv, nl, {0, -1}, no, nlo); });
  bad({"heads 0"}, [&] { merge(nv, nl, {0, 2}, no, nlo, 0); });
  bad({"dim -1"}, [&] { merge(nv, nl, {0, 2}, no, nlo, kHeads, -1); });
}

}  // namespace
}  // namespace mla
