// One tile of attention with random rows, its state, and the answer in double.
// Called by: attend_test.cc. Thread-safety: none.
#ifndef MLA_TESTS_KERNELS_ATTEND_TILE_H_
#define MLA_TESTS_KERNELS_ATTEND_TILE_H_

#include <cmath>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attend.h"
#include "kernels/kernel_table.h"
#include "support/compare.h"
#include "support/stored_matrix.h"

namespace mla::attend_tile {

struct Shape {
  int64_t m, t, dk, dv;
};
inline std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "m " << s.m << " t " << s.t << " dk " << s.dk << " dv " << s.dv;
}

// Softmax state of m rows, with marked elements around every part of it.
struct State {
  State(int64_t m, int64_t dv)
      : stride(dv + 3),
        max(static_cast<size_t>(m), -kInfinity),
        sum(static_cast<size_t>(m), 0),
        acc(static_cast<size_t>(m * (dv + 3)), 0),
        scratch(static_cast<size_t>(m * kAttendTileRows), kNaN) {}
  int64_t stride;
  std::vector<float> max, sum, acc, scratch;
};

struct Finished {
  std::vector<float> out, lse;
};

// Keys, values and queries of one tile. Rows lie apart with NaN between them, and the tile ends
// with rows of NaN that no query may read.
class Tile {
 public:
  Tile(const Shape& s, Elem type, uint64_t seed, double score_scale = 1)
      : shape_(s),
        random_(seed),
        q_(StoredMatrix::Normal(random_, s.m, s.dk, Elem::kF32,
                                score_scale / std::sqrt(static_cast<double>(s.dk)), 1, 1)),
        k_(WithPoison(s.t, s.dk, type)),
        v_(WithPoison(s.t, s.dv, type)) {}

  AttendTileArgs Args(State& state, const std::vector<int32_t>* visible) const {
    AttendTileArgs args;
    args.q = static_cast<const float*>(q_.data());
    args.q_stride = q_.stride();
    args.k = k_.data();
    args.k_stride = k_.stride();
    args.v = v_.data();
    args.v_stride = v_.stride();
    args.type = k_.type();
    args.m = shape_.m;
    args.t = shape_.t;
    args.dk = shape_.dk;
    args.dv = shape_.dv;
    args.visible = visible != nullptr ? visible->data() : nullptr;
    args.max = state.max.data();
    args.sum = state.sum.data();
    args.acc = state.acc.data();
    args.acc_stride = state.stride;
    args.scratch = state.scratch.data();
    return args;
  }

  // Adds this tile's terms of the softmax of row i to (score, value) lists.
  void Collect(int64_t i, int64_t visible, std::vector<double>& scores,
               std::vector<std::vector<double>>& values) const {
    for (int64_t j = 0; j < visible; ++j) {
      double score = 0;
      for (int64_t x = 0; x < shape_.dk; ++x) score += q_.At(i, x) * k_.At(j, x);
      scores.push_back(score);
      values.emplace_back();
      for (int64_t x = 0; x < shape_.dv; ++x) values.back().push_back(v_.At(j, x));
    }
  }
  StoredMatrix& q() { return q_; }

 private:
  StoredMatrix WithPoison(int64_t t, int64_t width, Elem type) {
    std::vector<float> values = random_.Normals(t * width);
    values.resize(static_cast<size_t>((t + 3) * width), kNaN);
    return {values, t + 3, width, type, 2, 1};
  }

  Shape shape_;
  Random random_;
  StoredMatrix q_, k_, v_;
};

inline Finished Finish(const KernelTable& kernels, State& state, int64_t m, int64_t dv) {
  Finished f{std::vector<float>(static_cast<size_t>(m * dv), kNaN),
             std::vector<float>(static_cast<size_t>(m), kNaN)};
  kernels.attend_finish({state.max.data(), state.sum.data(), state.acc.data(), state.stride,
                         f.out.data(), dv, f.lse.data(), m, dv});
  return f;
}

inline void ExpectRow(const Finished& got, int64_t i, int64_t dv, const std::vector<double>& scores,
                      const std::vector<std::vector<double>>& values, double tolerance) {
  double max = -1e300, sum = 0, largest = 1e-30;
  for (const double s : scores) max = std::max(max, s);
  std::vector<double> want(static_cast<size_t>(dv), 0);
  for (size_t j = 0; j < scores.size(); ++j) {
    const double p = std::exp(scores[j] - max);
    sum += p;
    for (size_t x = 0; x < want.size(); ++x) want[x] += p * values[j][x];
  }
  if (scores.empty()) {
    EXPECT_EQ(got.lse[static_cast<size_t>(i)], -kInfinity);
    for (int64_t x = 0; x < dv; ++x) ASSERT_EQ(got.out[static_cast<size_t>(i * dv + x)], 0);
    return;
  }
  for (const auto& row : values) {
    for (const double x : row) largest = std::max(largest, std::abs(x));
  }
  for (int64_t x = 0; x < dv; ++x) {
    ASSERT_NEAR(got.out[static_cast<size_t>(i * dv + x)], want[static_cast<size_t>(x)] / sum,
                tolerance * largest)
        << "row " << i << " column " << x;
  }
  const double lse = (max + std::log(sum)) / std::log(2.0);
  ASSERT_NEAR(got.lse[static_cast<size_t>(i)], lse, tolerance * (1 + std::abs(lse)));
}

}  // namespace mla::attend_tile

#endif  // MLA_TESTS_KERNELS_ATTEND_TILE_H_
