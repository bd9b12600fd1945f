#include "kernels/latent.h"

#include <gtest/gtest.h>

#include "support/latent_case.h"
#include "support/slow_isa.h"

namespace mla {
namespace {

struct Types {
  Elem type, rope;
};
constexpr Types kTypes[] = {{Elem::kF32, Elem::kF32},
                            {Elem::kBf16, Elem::kF16},
                            {Elem::kBf16, Elem::kBf16},
                            {Elem::kF16, Elem::kF16}};

void ExpectExact(LatentCase& c, const KernelTable& kernels) {
  const LatentResult got = c.Run(kernels);
  ASSERT_TRUE(c.intact) << "wrote beyond the scratch";
  const LatentCase::Exact want = c.Want();
  const double bound = LatentFp32Bound(c.s, want);
  for (size_t i = 0; i < want.out.size(); ++i) {
    ASSERT_NEAR(got.out[i], want.out[i], bound * std::max(want.largest_value, 1e-30))
        << "element " << i;
  }
  for (size_t i = 0; i < want.lse.size(); ++i) {
    if (std::isinf(want.lse[i])) {
      ASSERT_EQ(got.lse[i], -kInfinity) << "pair " << i;
    } else {
      ASSERT_NEAR(got.lse[i], want.lse[i], bound * (2 + std::abs(want.lse[i]))) << "pair " << i;
    }
  }
}

void ExpectExactEverywhere(LatentShape s, uint64_t seed) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const Types& types : kTypes) {
      s.type = types.type;
      s.rope_type = types.rope;
      SCOPED_TRACE(testing::Message() << kernels->name << " " << s);
      LatentCase c(s, seed);
      ExpectExact(c, *kernels);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Latent, EveryNumberOfHeads) {
  for (int64_t heads = 1; heads <= 41; ++heads) {
    ExpectExactEverywhere({.heads = heads, .rank = 41, .rope = 6, .keys = 70, .first = 60},
                          static_cast<uint64_t>(heads));
  }
}

TEST(Latent, EveryNumberOfKeysAroundTheTile) {
  for (const int64_t keys :
       {1, 2, 3, 7, 8, 15, 16, 17, 23, 24, 31, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129, 199}) {
    ExpectExactEverywhere({.heads = 5, .rank = 32, .rope = 8, .keys = keys},
                          static_cast<uint64_t>(keys));
    ExpectExactEverywhere({.heads = 18, .rank = 34, .rope = 8, .keys = keys, .first = 37},
                          static_cast<uint64_t>(keys));
  }
}

TEST(Latent, EveryWidth) {
  for (const int64_t rank : {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 129}) {
    for (const int64_t rope : {2, 10, 32, 64}) {
      ExpectExactEverywhere({.heads = 17, .rank = rank, .rope = rope, .keys = 66},
                            static_cast<uint64_t>(rank));
    }
  }
}

TEST(Latent, RealShapes) {
  if (SlowIsa()) GTEST_SKIP() << "too slow on this instruction set";
  ExpectExactEverywhere({.heads = 16, .rank = 512, .rope = 64, .keys = 300, .first = 10}, 1);
  ExpectExactEverywhere({.heads = 20, .rank = 512, .rope = 64, .keys = 130}, 2);
  ExpectExactEverywhere({.heads = 40, .rank = 256, .rope = 32, .keys = 100}, 3);
  ExpectExactEverywhere({.heads = 128, .rank = 512, .rope = 64, .keys = 70}, 4);
}

// Row i sees all keys but the last rows - 1 - i; the first may see none at all.
TEST(Latent, SeveralQueryRows) {
  for (const int64_t rows : {2, 3, 5, 8}) {
    for (const int64_t keys : {1, 4, 8, 63, 64, 66, 130}) {
      ExpectExactEverywhere(
          {.rows = rows, .heads = 6, .rank = 40, .rope = 8, .keys = keys, .first = 20},
          static_cast<uint64_t>(rows * 1000 + keys));
    }
    ExpectExactEverywhere({.rows = rows, .heads = 16, .rank = 64, .rope = 8, .keys = 128}, 9);
  }
}

TEST(Latent, ScoresOfTenThousand) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    LatentCase c({.heads = 17, .rank = 48, .rope = 8, .keys = 150, .score_scale = 1e4}, 5);
    const LatentResult got = c.Run(*kernels);
    const LatentCase::Exact want = c.Want();
    ASSERT_TRUE(Finite(got.out));
    // fp32 knows a score of 1e4 to about 1e4·sqrt(56)·2^-24 = 4e-3.
    for (size_t i = 0; i < want.out.size(); ++i) {
      ASSERT_NEAR(got.out[i], want.out[i], 3e-2 * want.largest_value) << kernels->name << " " << i;
    }
  }
}

TEST(Latent, EqualKeysGiveTheirMeanAndADominantOneItself) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    LatentCase c({.heads = 3, .rank = 33, .rope = 4, .keys = 100}, 6);
    for (int64_t key = 0; key < 100; ++key) {
      for (int64_t x = 0; x < 37; ++x) c.Value(key, x) = c.Value(0, x);
      c.PutRow(key);
    }
    LatentResult got = c.Run(*kernels);
    for (int64_t x = 0; x < 33; ++x) {
      EXPECT_NEAR(got.out[static_cast<size_t>(x)], c.Value(0, x), 1e-5) << kernels->name;
    }
    for (int64_t x = 0; x < 37; ++x) c.Value(70, x) = 300 * c.q[static_cast<size_t>(x)];
    c.PutRow(70);
    got = c.Run(*kernels);
    for (int64_t x = 0; x < 33; ++x) {
      EXPECT_NEAR(got.out[static_cast<size_t>(x)], c.Value(70, x), 1e-3) << kernels->name;
    }
  }
}

// Wherever it lies: the rest of a tile, a whole tile, the second piece of a row.
TEST(Latent, ABrokenKeyReachesThoseWhoSeeItAndNobodyElse) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const Types& types : kTypes) {
      for (const int64_t keys : {9, 64, 80}) {
        LatentShape s{.rows = 8, .heads = 19, .rank = 70, .rope = 4, .keys = keys};
        s.type = types.type;
        s.rope_type = types.rope;
        LatentCase c(s, 7);
        const LatentResult clean = c.Run(*kernels);
        for (const int64_t column : {0, 69, 70, 73}) {
          LatentCase broken(s, 7);
          const int64_t bad = keys - 4;  // seen by the last four rows
          broken.Value(bad, column) = kNaN;
          broken.PutRow(bad);
          const LatentResult got = broken.Run(*kernels);
          const size_t per_row = static_cast<size_t>(s.heads * s.rank);
          const std::vector<float> before(got.out.begin(),
                                          got.out.begin() + static_cast<int64_t>(4 * per_row));
          const std::vector<float> want(clean.out.begin(),
                                        clean.out.begin() + static_cast<int64_t>(4 * per_row));
          EXPECT_TRUE(SameBits(before, want)) << kernels->name << " keys " << keys;
          for (size_t i = 4 * per_row; i < got.out.size(); i += static_cast<size_t>(s.rank)) {
            EXPECT_TRUE(std::isnan(got.out[i]))
                << kernels->name << " pair " << i / static_cast<size_t>(s.rank);
          }
        }
      }
    }
  }
}

TEST(Latent, ScoresOfMinusInfinityWeighNothing) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const int64_t keys : {1, 70}) {
      LatentCase c({.heads = 18, .rank = 34, .rope = 4, .keys = keys}, 8);
      for (float& x : c.q) x = std::abs(x);
      for (int64_t key = 0; key < keys; ++key) {
        c.Value(key, 35) = -kInfinity;  // in k_rope, so that the values stay finite
        c.PutRow(key);
      }
      LatentResult got = c.Run(*kernels);
      for (const float x : got.out) EXPECT_EQ(x, 0) << kernels->name << " keys " << keys;
      for (const float x : got.lse) EXPECT_EQ(x, -kInfinity);
      if (keys == 1) continue;
      c.Value(66, 35) = 1;
      c.PutRow(66);
      got = c.Run(*kernels);
      for (int64_t x = 0; x < 34; ++x) {
        EXPECT_NEAR(got.out[static_cast<size_t>(x)], c.Value(66, x), 1e-6) << kernels->name;
      }
    }
  }
}

TEST(Latent, APairDoesNotDependOnTheRestOfItsTask) {
  for (const Types& types : kTypes) {
    LatentShape s{.rows = 5, .heads = 48, .rank = 70, .rope = 8, .keys = 140, .first = 30};
    s.type = types.type;
    s.rope_type = types.rope;
    LatentCase c(s, 10);
    const LatentResult whole = c.Run(FastKernels());
    const auto rows_of = [&](const std::vector<float>& v, int64_t row, int64_t head,
                             int64_t heads) {
      const auto begin = v.begin() + (row * s.heads + head) * s.rank;
      return std::vector<float>(begin, begin + heads * s.rank);
    };
    for (int64_t row = 0; row < s.rows; ++row) {
      for (const int64_t head : {0, 16, 32}) {
        const LatentResult part = c.Run(FastKernels(), row, 1, head, 16);
        EXPECT_TRUE(SameBits(part.out, rows_of(whole.out, row, head, 16)))
            << s << " row " << row << " head " << head;
      }
    }
  }
}

}  // namespace
}  // namespace mla
