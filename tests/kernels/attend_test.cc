#include "kernels/attend.h"

#include <cmath>

#include <gtest/gtest.h>

#include "kernels/attend_tile.h"
#include "support/slow_isa.h"

namespace mla {
namespace {

using attend_tile::ExpectRow;
using attend_tile::Finish;
using attend_tile::Finished;
using attend_tile::Shape;
using attend_tile::State;
using attend_tile::Tile;

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (int64_t m = 1; m <= 9; ++m) shapes.push_back({m, 13, 40, 20});
  for (int64_t t : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64}) {
    shapes.push_back({1, t, 11, 5});
    shapes.push_back({6, t, 40, 33});
  }
  for (int64_t d : {1, 2, 3, 7, 8, 9, 15, 17, 31, 64, 65}) shapes.push_back({5, 20, d, 66 - d});
  // Rows enough for packed keys; the last key is too wide for them.
  for (const Shape& s :
       {Shape{32, 64, 40, 16}, Shape{33, 13, 37, 20}, Shape{45, 33, 11, 5}, Shape{71, 63, 3, 7},
        Shape{40, 1, 1, 1}, Shape{37, 20, 256, 9}, Shape{35, 20, 257, 9}}) {
    shapes.push_back(s);
  }
  if (!SlowIsa()) shapes.push_back({16, 64, 576, 512});
  return shapes;
}

// Two tiles in a row, the first seen in full, the second in part, so that state is carried and
// rescaled.
TEST(AttendTile, TwoTilesMatchTheSoftmaxOverBoth) {
  uint64_t seed = 0;
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const Elem type : kAllElems) {
      for (const Shape& s : Shapes()) {
        SCOPED_TRACE(testing::Message() << kernels->name << " " << s);
        Random random(++seed);
        const Tile first(s, type, seed);
        Tile second(s, type, seed + 500, 3);
        second.q() = const_cast<Tile&>(first).q();
        std::vector<int32_t> visible;
        for (int64_t i = 0; i < s.m; ++i) {
          visible.push_back(static_cast<int32_t>(random.Below(s.t + 1)));
        }
        State state(s.m, s.dv);
        kernels->attend_tile(first.Args(state, nullptr));
        kernels->attend_tile(second.Args(state, &visible));
        const Finished got = Finish(*kernels, state, s.m, s.dv);
        for (int64_t i = 0; i < s.m; ++i) {
          std::vector<double> scores;
          std::vector<std::vector<double>> values;
          first.Collect(i, s.t, scores, values);
          second.Collect(i, visible[static_cast<size_t>(i)], scores, values);
          ExpectRow(got, i, s.dv, scores, values, 3e-6);
          if (HasFatalFailure()) return;
          for (int64_t x = s.dv; x < s.dv + 3; ++x) {
            ASSERT_EQ(state.acc[static_cast<size_t>(i * state.stride + x)], 0) << "wrote too far";
          }
        }
      }
    }
  }
}

// The first visible[i] rows exist and no more, from none to all; only the first tile.
TEST(AttendTile, EveryCountOfVisibleRows) {
  const Shape s{9, 8, 24, 10};
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    const Tile tile(s, Elem::kBf16, 3);
    const std::vector<int32_t> visible = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    State state(s.m, s.dv);
    kernels->attend_tile(tile.Args(state, &visible));
    const Finished got = Finish(*kernels, state, s.m, s.dv);
    for (int64_t i = 0; i < s.m; ++i) {
      std::vector<double> scores;
      std::vector<std::vector<double>> values;
      tile.Collect(i, i, scores, values);
      ExpectRow(got, i, s.dv, scores, values, 3e-6);
    }
  }
}

TEST(AttendTile, NoVisibleRowLeavesTheStateAlone) {
  const Shape s{5, 0, 16, 8};  // the three rows of NaN are all that is there
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    const Tile tile(s, Elem::kF32, 4);
    State state(s.m, s.dv);
    state.max.assign(5, 1.5f);
    state.sum.assign(5, 2.5f);
    state.acc.assign(state.acc.size(), 3.5f);
    const State before = state;
    const std::vector<int32_t> visible(5, 0);
    AttendTileArgs args = tile.Args(state, &visible);
    args.t = 3;
    kernels->attend_tile(args);
    EXPECT_EQ(state.max, before.max);
    EXPECT_EQ(state.sum, before.sum);
    EXPECT_EQ(state.acc, before.acc);
  }
}

TEST(AttendTile, RowsDoNotDependOnTheirNeighbours) {
  for (const Elem type : kAllElems) {
    const Shape s{7, 37, 43, 29};
    const Tile tile(s, type, 5);
    const std::vector<int32_t> visible = {37, 1, 12, 0, 36, 20, 5};
    State whole(s.m, s.dv);
    AttendTile(tile.Args(whole, &visible));
    for (int64_t i = 0; i < s.m; ++i) {
      State alone(1, s.dv);
      AttendTileArgs args = tile.Args(alone, &visible);
      args.q += i * args.q_stride;
      args.visible += i;
      args.m = 1;
      AttendTile(args);
      const auto row = whole.acc.begin() + i * whole.stride;
      EXPECT_TRUE(SameBits({row, row + whole.stride}, alone.acc)) << "row " << i;
      EXPECT_EQ(alone.sum[0], whole.sum[static_cast<size_t>(i)]);
      EXPECT_EQ(alone.max[0], whole.max[static_cast<size_t>(i)]);
    }
  }
}

TEST(AttendTile, ExtremeScores) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const Elem type : kAllElems) {
      const Shape s{5, 40, 32, 12};
      const Tile tile(s, type, 6, 1e4);
      State state(s.m, s.dv);
      kernels->attend_tile(tile.Args(state, nullptr));
      const Finished got = Finish(*kernels, state, s.m, s.dv);
      ASSERT_TRUE(Finite(got.out));
      for (int64_t i = 0; i < s.m; ++i) {
        std::vector<double> scores;
        std::vector<std::vector<double>> values;
        tile.Collect(i, s.t, scores, values);
        // Scores of 1e4 are known to 1e4 · k roundings of fp32.
        ExpectRow(got, i, s.dv, scores, values, 2e-2);
      }
    }
  }
}

// Scores of -inf weigh nothing, alone or among others, and leave no NaN.
TEST(AttendTile, MinusInfinityScores) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const int64_t t : {1, 9, 20}) {
      std::vector<float> k(static_cast<size_t>(t), -kInfinity);
      const std::vector<float> v(static_cast<size_t>(t), 2);
      const float q = 1;
      State state(1, 1);
      AttendTileArgs args;
      args.q = &q;
      args.q_stride = args.k_stride = args.v_stride = 1;
      args.k = k.data();
      args.v = v.data();
      args.m = args.dk = args.dv = 1;
      args.t = t;
      args.max = state.max.data();
      args.sum = state.sum.data();
      args.acc = state.acc.data();
      args.acc_stride = state.stride;
      args.scratch = state.scratch.data();
      kernels->attend_tile(args);
      Finished got = Finish(*kernels, state, 1, 1);
      EXPECT_EQ(got.out[0], 0) << kernels->name << " t " << t;
      EXPECT_EQ(got.lse[0], -kInfinity);
      k[static_cast<size_t>(t - 1)] = 3;
      kernels->attend_tile(args);
      got = Finish(*kernels, state, 1, 1);
      EXPECT_EQ(got.out[0], 2) << kernels->name << " t " << t;
      EXPECT_NEAR(got.lse[0], 3 / std::log(2.0), 1e-5);
    }
  }
}

// Whatever its place among the lanes and whatever came before.
TEST(AttendTile, ANaNScoreReachesTheOutput) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const Elem type : kAllElems) {
      for (int64_t bad = 0; bad < 21; ++bad) {
        for (const bool earlier : {false, true}) {
          Random random(7);
          std::vector<float> keys = random.Normals(21 * 8);
          keys[static_cast<size_t>(bad * 8 + bad % 8)] = kNaN;
          const StoredMatrix k(keys, 21, 8, type);
          const std::vector<float> q = random.Normals(8);
          State state(1, 8);
          if (earlier) {
            state.max[0] = 0;
            state.sum[0] = 1;
          }
          AttendTileArgs args;
          args.q = q.data();
          args.q_stride = args.k_stride = args.v_stride = 8;
          args.k = k.data();
          args.v = k.data();
          args.type = type;
          args.m = 1;
          args.t = 21;
          args.dk = args.dv = 8;
          args.max = state.max.data();
          args.sum = state.sum.data();
          args.acc = state.acc.data();
          args.acc_stride = state.stride;
          args.scratch = state.scratch.data();
          kernels->attend_tile(args);
          const Finished got = Finish(*kernels, state, 1, 8);
          EXPECT_TRUE(HasNaN(got.out)) << kernels->name << " key " << bad;
        }
      }
    }
  }
}

// Row i sees keys 0 .. i; key j is broken. Rows that do not see it come out as without it.
TEST(AttendTile, ABrokenKeyDoesNotReachRowsThatDoNotSeeIt) {
  constexpr int64_t kDim = 11;
  for (const auto& [table, count] : {std::pair<const KernelTable*, int64_t>{&FastKernels(), 9},
                                     {&FastKernels(), 41},
                                     {&ReferenceKernels(), 9}}) {
    const KernelTable* const kernels = table;
    const int64_t rows = count;
    std::vector<int32_t> visible;
    for (int32_t i = 1; i <= rows; ++i) visible.push_back(i);
    Random random(8);
    const auto q = random.Normals(rows * kDim);
    const auto keys = random.Normals(rows * kDim);
    const auto run = [&](const std::vector<float>& k) {
      State state(rows, kDim);
      AttendTileArgs args;
      args.q = q.data();
      args.q_stride = args.k_stride = args.v_stride = kDim;
      args.k = args.v = k.data();
      args.m = args.t = rows;
      args.dk = args.dv = kDim;
      args.visible = visible.data();
      args.max = state.max.data();
      args.sum = state.sum.data();
      args.acc = state.acc.data();
      args.acc_stride = state.stride;
      args.scratch = state.scratch.data();
      kernels->attend_tile(args);
      return Finish(*kernels, state, rows, kDim).out;
    };
    const auto clean = run(keys);
    for (int64_t bad = 0; bad < rows; ++bad) {
      for (const float value : {kNaN, kInfinity}) {
        auto broken = keys;
        std::fill_n(broken.begin() + bad * kDim, kDim, value);
        const auto got = run(broken);
        EXPECT_TRUE(SameBits({got.begin(), got.begin() + bad * kDim},
                             {clean.begin(), clean.begin() + bad * kDim}))
            << kernels->name << " key " << bad;
        for (int64_t i = bad; i < rows; ++i) {
          EXPECT_FALSE(Finite({got.begin() + i * kDim, got.begin() + (i + 1) * kDim}));
        }
      }
    }
  }
}

// The rest of each key elsewhere and of another type, as in caches with a finer rotated part.
TEST(AttendTile, KeysInTwoParts) {
  constexpr int64_t kT = 21;
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const Elem type : kAllElems) {
      for (const Elem rope_type : kAllElems) {
        for (const auto& [dk, dr] : {std::pair<int64_t, int64_t>{24, 6}, {1, 2}, {33, 64}}) {
          // Few rows, and enough for packed keys.
          const int64_t rows = dk == 24 ? 35 : dk == 1 ? 5 : type == rope_type ? 5 : 38;
          Random random(9);
          const StoredMatrix q = StoredMatrix::Normal(random, rows, dk + dr, Elem::kF32, 0.3, 1);
          const StoredMatrix k = StoredMatrix::Normal(random, kT, dk, type, 1, 2, 1);
          const StoredMatrix rope = StoredMatrix::Normal(random, kT, dr, rope_type, 1, 5, 1);
          State state(rows, dk);
          AttendTileArgs args;
          args.q = static_cast<const float*>(q.data());
          args.q_stride = q.stride();
          args.k = args.v = k.data();
          args.k_stride = args.v_stride = k.stride();
          args.type = type;
          args.k_rope = rope.data();
          args.k_rope_stride = rope.stride();
          args.rope_type = rope_type;
          args.dr = dr;
          args.m = rows;
          args.t = kT;
          args.dk = args.dv = dk;
          args.max = state.max.data();
          args.sum = state.sum.data();
          args.acc = state.acc.data();
          args.acc_stride = state.stride;
          args.scratch = state.scratch.data();
          kernels->attend_tile(args);
          const Finished got = Finish(*kernels, state, rows, dk);
          for (int64_t i = 0; i < rows; ++i) {
            std::vector<double> scores;
            std::vector<std::vector<double>> values;
            for (int64_t j = 0; j < kT; ++j) {
              double score = 0;
              for (int64_t x = 0; x < dk; ++x) score += q.At(i, x) * k.At(j, x);
              for (int64_t x = 0; x < dr; ++x) score += q.At(i, dk + x) * rope.At(j, x);
              scores.push_back(score);
              values.emplace_back();
              for (int64_t x = 0; x < dk; ++x) values.back().push_back(k.At(j, x));
            }
            ExpectRow(got, i, dk, scores, values, 3e-6);
          }
        }
      }
    }
  }
}

TEST(AttendFinish, InPlaceAndWithoutLse) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    const float max[] = {1, -kInfinity};
    const float sum[] = {4, 0};
    std::vector<float> acc = {4, 8, 12, 9, 9, 9};
    kernels->attend_finish({max, sum, acc.data(), 3, acc.data(), 3, nullptr, 2, 3});
    EXPECT_EQ(acc, (std::vector<float>{1, 2, 3, 0, 0, 0})) << kernels->name;
  }
}

}  // namespace
}  // namespace mla
