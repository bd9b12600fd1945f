#include "ops/linear.h"

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/expect_error.h"
#include "support/op_harness.h"

namespace mla {
namespace {

constexpr float kMark = 99.5f;

// y = x Wᵀ + b (+ before) in double, and the size of the error that fp32 may make.
void ExpectLinear(const std::vector<float>& y, int64_t y_stride, const StoredMatrix& x,
                  const StoredMatrix& w, const float* bias, const std::vector<float>* before) {
  for (int64_t i = 0; i < x.rows(); ++i) {
    for (int64_t j = 0; j < w.rows(); ++j) {
      const size_t at = static_cast<size_t>(i * y_stride + j);
      const double added = (bias != nullptr ? bias[j] : 0.0);
      const double old = before != nullptr ? (*before)[at] : 0.0;
      double want = added + old;
      double magnitude = std::abs(added) + std::abs(old) + 1e-30;
      for (int64_t k = 0; k < w.cols(); ++k) {
        want += x.At(i, k) * w.At(j, k);
        magnitude += std::abs(x.At(i, k) * w.At(j, k));
      }
      ASSERT_LE(std::abs(y[at] - want), static_cast<double>(w.cols() + 3) * kRoundF32 * magnitude)
          << "row " << i << " column " << j;
    }
    for (int64_t j = w.rows(); j < y_stride; ++j) {
      ASSERT_EQ(y[static_cast<size_t>(i * y_stride + j)], kMark) << "wrote past the row";
    }
  }
}

// Up to four products of one input, of different heights and types, some with a bias.
struct Outputs {
  Outputs(Random& random, int64_t rows, const std::vector<int64_t>& heights, int64_t width) {
    for (size_t i = 0; i < heights.size(); ++i) {
      weights.push_back(StoredMatrix::Normal(random, heights[i], width, kAllElems[i % 3], 1, 2));
      biases.push_back(random.Normals(heights[i]));
      y.push_back(random.Normals(rows * (heights[i] + 3)));
      for (int64_t r = 0; r < rows; ++r) {
        std::fill_n(y.back().begin() + r * (heights[i] + 3) + heights[i], 3, kMark);
      }
    }
    for (size_t i = 0; i < heights.size(); ++i) {
      linears.push_back({ViewOf(weights[i]), i % 2 == 0 ? biases[i].data() : nullptr});
    }
    for (size_t i = 0; i < heights.size(); ++i) {
      list.push_back({&linears[i], y[i].data(), heights[i] + 3});
    }
  }
  std::vector<StoredMatrix> weights;
  std::vector<std::vector<float>> biases, y;
  std::vector<Linear> linears;
  std::vector<LinearOutput> list;
};

TEST(ApplyLinear, SeveralOutputs) {
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const int threads : {1, 3}) {
      OpHarness harness(threads, 0, *kernels);
      for (const int64_t rows : {1, 4, 7}) {
        for (const auto& heights :
             std::vector<std::vector<int64_t>>{{5}, {300, 1}, {64, 259, 3}, {1, 2, 500, 4}}) {
          for (const bool accumulate : {false, true}) {
            Random random(1);
            const StoredMatrix x = StoredMatrix::Normal(random, rows, 75, Elem::kF32, 1, 6);
            Outputs o(random, rows, heights, 75);
            const auto before = o.y;
            ApplyLinear(harness.context, static_cast<const float*>(x.data()), x.stride(), rows,
                        o.list, accumulate);
            for (size_t i = 0; i < heights.size(); ++i) {
              ExpectLinear(o.y[i], heights[i] + 3, x, o.weights[i], o.linears[i].bias,
                           accumulate ? &before[i] : nullptr);
            }
          }
        }
      }
    }
  }
}

TEST(ApplyLinear, ThreadsAndNeighboursDoNotMatter) {
  Random random(2);
  const StoredMatrix x = StoredMatrix::Normal(random, 5, 130, Elem::kF32);
  const float* data = static_cast<const float*>(x.data());
  Outputs want(random, 5, {700, 33, 8}, 130);
  const auto run = [&](int threads, int64_t first, int64_t rows) {
    OpHarness harness(threads);
    for (auto& y : want.y) std::fill(y.begin(), y.end(), kNaN);
    ApplyLinear(harness.context, data + first * x.stride(), x.stride(), rows, want.list);
    return want.y;
  };
  const auto one = run(1, 0, 5);
  for (const int threads : {2, 3, 7}) {
    const auto many = run(threads, 0, 5);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(SameBits(one[i], many[i])) << threads;
  }
  for (int64_t row = 0; row < 5; ++row) {
    const auto alone = run(2, row, 1);
    for (size_t i = 0; i < one.size(); ++i) {
      const int64_t stride = want.list[i].y_stride;
      const int64_t width = stride - 3;
      EXPECT_TRUE(SameBits({alone[i].begin(), alone[i].begin() + width},
                           {one[i].begin() + row * stride, one[i].begin() + row * stride + width}))
          << "row " << row << " output " << i;
    }
  }
}

TEST(ApplyLinear, DisagreeingShapesAreRefused) {
  OpHarness harness;
  Random random(3);
  const StoredMatrix x = StoredMatrix::Normal(random, 2, 8, Elem::kF32);
  const StoredMatrix w = StoredMatrix::Normal(random, 6, 8, Elem::kF32);
  const StoredMatrix narrow = StoredMatrix::Normal(random, 6, 7, Elem::kF32);
  std::vector<float> y(100);
  const Linear good{ViewOf(w), nullptr}, other{ViewOf(narrow), nullptr}, empty{};
  Linear integers = good;
  integers.weight.dtype = DType::kI32;
  const auto apply = [&](const std::vector<LinearOutput>& outputs, int64_t x_stride = 8) {
    ApplyLinear(harness.context, static_cast<const float*>(x.data()), x_stride, 2, outputs);
  };
  const LinearOutput ok{&good, y.data(), 6};
  EXPECT_NO_THROW(apply({ok}));
  const auto refused = [&](std::initializer_list<const char*> parts, auto call) {
    ExpectError(ErrorCode::kInternal, parts, call);
  };
  refused({"1 to 4"}, [&] { apply({}); });
  refused({"1 to 4"}, [&] { apply({ok, ok, ok, ok, ok}); });
  refused({"shapes"}, [&] { apply({ok, {&other, y.data(), 6}}); });
  refused({"shapes"}, [&] { apply({{&good, y.data(), 5}}); });
  refused({"shapes"}, [&] { apply({ok}, 7); });
  refused({"shapes"}, [&] { apply({{&empty, y.data(), 6}}); });
  refused({"i32"}, [&] { apply({{&integers, y.data(), 6}}); });
}

TEST(Linear, DenseElem) {
  EXPECT_EQ(DenseElem(DType::kF32), Elem::kF32);
  EXPECT_EQ(DenseElem(DType::kF16), Elem::kF16);
  EXPECT_EQ(DenseElem(DType::kBf16), Elem::kBf16);
  ExpectError(ErrorCode::kInternal, {"f8_e4m3"}, [] { DenseElem(DType::kF8E4M3); });
}

TEST(Linear, BlockRowsAreAMultipleOfFour) {
  for (const int64_t cols : {1, 7, 64, 512, 2048, 7168, 100000}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      WeightView w;
      w.cols = cols;
      w.dtype = dtype;
      const int64_t block = LinearBlockRows(w);
      EXPECT_EQ(block % 4, 0);
      EXPECT_GE(block, 4);
      EXPECT_LE(block, 256);
      if (block > 4 && block < 256) {
        EXPECT_LE(block * cols * DTypeSize(dtype), 64 << 10);
      }
    }
  }
}

TEST(ThreadScratch, GrowsOnDemandOnly) {
  ThreadScratch scratch(3);
  EXPECT_EQ(scratch.size(), 0);
  scratch.Reserve(100);
  EXPECT_EQ(scratch.size(), 100);
  EXPECT_EQ(scratch.bytes(), 1200);
  float* first = scratch.Get(0);
  EXPECT_NE(first, scratch.Get(1));
  scratch.Reserve(50);
  EXPECT_EQ(scratch.size(), 100);
  EXPECT_EQ(scratch.Get(0), first) << "nothing moved";
}

}  // namespace
}  // namespace mla
