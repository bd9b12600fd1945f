#include "kernels/matmul.h"

#include <functional>
#include <ostream>

#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "support/compare.h"
#include "support/slow_isa.h"
#include "support/stored_matrix.h"

namespace mla {
namespace {

constexpr float kUntouched = 12345.5f;

struct Shape {
  int64_t m, n, k;
};
std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "m " << s.m << " n " << s.n << " k " << s.k;
}

struct Options {
  bool transposed = true;
  bool accumulate = false;
  bool bias = false;
  bool pick_rows = false;
};

// One product with everything that may go wrong around it: gaps of NaN between the rows of A and
// B, pointers of no alignment, a marked gap between the rows of C.
class Product {
 public:
  Product(const Shape& s, Elem type, const Options& o, uint64_t seed)
      : shape_(s),
        options_(o),
        random_(seed),
        a_(StoredMatrix::Normal(random_, s.m + 3, s.k, Elem::kF32, 1, 5, 1)),
        b_(StoredMatrix::Normal(random_, o.transposed ? s.n : s.k, o.transposed ? s.k : s.n, type,
                                1, 3, 1)),
        bias_(random_.Normals(s.n)),
        before_(random_.Normals(s.m * (s.n + kGap))) {
    for (int64_t i = 0; i < s.m; ++i) {
      rows_.push_back(static_cast<int32_t>(o.pick_rows ? random_.Below(s.m + 3) : i));
      for (int64_t j = s.n; j < s.n + kGap; ++j) before_[Index(i, j)] = kUntouched;
    }
  }

  // Rows [first, first + count) of C by the given kernels.
  std::vector<float> Run(const KernelTable& kernels, int64_t first, int64_t count,
                         float* scratch = nullptr, int64_t scratch_floats = 0) const {
    std::vector<float> c = before_;
    MatmulArgs args;
    args.a = static_cast<const float*>(a_.data()) + (options_.pick_rows ? 0 : first * a_.stride());
    args.a_stride = a_.stride();
    args.a_rows = options_.pick_rows ? rows_.data() + first : nullptr;
    args.b = b_.data();
    args.b_stride = b_.stride();
    args.b_type = b_.type();
    args.bias = options_.bias ? bias_.data() : nullptr;
    args.c = c.data() + first * (shape_.n + kGap);
    args.c_stride = shape_.n + kGap;
    args.accumulate = options_.accumulate;
    args.m = count;
    args.n = shape_.n;
    args.k = shape_.k;
    args.scratch = scratch;
    args.scratch_floats = scratch_floats;
    (options_.transposed ? kernels.matmul_nt : kernels.matmul_nn)(args);
    return c;
  }
  std::vector<float> Run(const KernelTable& kernels) const { return Run(kernels, 0, shape_.m); }

  // Every element within the worst case of k + 3 roundings of the sum of magnitudes.
  void Check(const std::vector<float>& c) const {
    for (int64_t i = 0; i < shape_.m; ++i) {
      for (int64_t j = 0; j < shape_.n; ++j) {
        const double bias = options_.bias ? bias_[static_cast<size_t>(j)] : 0;
        const double before = options_.accumulate ? before_[Index(i, j)] : 0;
        double want = bias + before;
        double magnitude = std::abs(bias) + std::abs(before) + 1e-30;
        for (int64_t x = 0; x < shape_.k; ++x) {
          const double term = a_.At(rows_[static_cast<size_t>(i)], x) *
                              (options_.transposed ? b_.At(j, x) : b_.At(x, j));
          want += term;
          magnitude += std::abs(term);
        }
        ASSERT_LE(std::abs(c[Index(i, j)] - want),
                  static_cast<double>(shape_.k + 3) * kRoundF32 * magnitude)
            << "row " << i << " column " << j;
      }
      for (int64_t j = shape_.n; j < shape_.n + kGap; ++j) {
        ASSERT_EQ(c[Index(i, j)], kUntouched) << "wrote past the end of row " << i;
      }
    }
  }

 private:
  static constexpr int64_t kGap = 2;
  size_t Index(int64_t i, int64_t j) const {
    return static_cast<size_t>(i * (shape_.n + kGap) + j);
  }

  Shape shape_;
  Options options_;
  Random random_;
  StoredMatrix a_, b_;
  std::vector<float> bias_, before_;
  std::vector<int32_t> rows_;
};

// m around the four-row tile, n and k around every vector length and the wide tiles.
std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (int64_t m = 1; m <= 9; ++m) shapes.push_back({m, 7, 37});
  for (int64_t n : {1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 33, 63, 64, 65, 67}) {
    shapes.push_back({1, n, 19});
    shapes.push_back({5, n, 19});
  }
  for (int64_t k : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 257}) {
    shapes.push_back({1, 6, k});
    shapes.push_back({6, 6, k});
  }
  if (!SlowIsa()) shapes.push_back({13, 129, 1031});
  return shapes;
}

void ForEachProduct(const std::function<void(const Product&)>& check) {
  uint64_t seed = 1;
  for (const bool transposed : {true, false}) {
    for (const Elem type : kAllElems) {
      for (const Shape& shape : Shapes()) {
        for (int variant = 0; variant < 4; ++variant) {
          SCOPED_TRACE(testing::Message() << (transposed ? "Nt " : "Nn ") << shape << " type "
                                          << static_cast<int>(type) << " variant " << variant);
          const Options options{transposed, (variant & 1) != 0, (variant & 2) != 0,
                                transposed && variant >= 2};
          check(Product(shape, type, options, ++seed));
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Matmul, FastIsRight) {
  ForEachProduct([](const Product& p) { p.Check(p.Run(FastKernels())); });
}

TEST(Matmul, ReferenceIsRight) {
  ForEachProduct([](const Product& p) { p.Check(p.Run(ReferenceKernels())); });
}

TEST(Matmul, RowsDoNotDependOnTheTiling) {
  for (const bool transposed : {true, false}) {
    for (const Elem type : kAllElems) {
      for (const Shape& shape : {Shape{7, 21, 53}, Shape{7, 64, 128}, Shape{9, 5, 3}}) {
        const Product p(shape, type, Options{transposed, true, true, transposed}, 5);
        const std::vector<float> whole = p.Run(FastKernels());
        for (const int64_t step : {1, 2, 3, 5}) {
          for (int64_t first = 0; first < shape.m; first += step) {
            const int64_t count = std::min(step, shape.m - first);
            const std::vector<float> part = p.Run(FastKernels(), first, count);
            const int64_t stride = static_cast<int64_t>(whole.size()) / shape.m;
            ASSERT_TRUE(
                SameBits({whole.begin() + first * stride, whole.begin() + (first + count) * stride},
                         {part.begin() + first * stride, part.begin() + (first + count) * stride}))
                << shape << " rows from " << first << " by " << step;
          }
        }
      }
    }
  }
}

// Many rows with scratch for panels: the same bits as without, whatever the scratch holds, and
// nothing written beyond it.
TEST(Matmul, PanelsChangeNothing) {
  uint64_t seed = 900;
  for (const Elem type : kAllElems) {
    for (const Shape& shape :
         {Shape{96, 1, 1}, Shape{97, 33, 16}, Shape{100, 67, 37}, Shape{107, 130, 150},
          Shape{109, 5, 129}, Shape{96, 31, 7}, Shape{103, 64, 300}, Shape{98, 17, 0}}) {
      for (int variant = 0; variant < 4; ++variant) {
        SCOPED_TRACE(testing::Message()
                     << shape << " type " << static_cast<int>(type) << " variant " << variant);
        const Options options{true, (variant & 1) != 0, (variant & 2) != 0, variant >= 2};
        const Product p(shape, type, options, ++seed);
        const std::vector<float> want = p.Run(FastKernels());
        p.Check(want);
        for (const int64_t floats :
             {int64_t{0}, int64_t{100}, (shape.k + 64) * 80, MatmulScratchFloats(shape.k)}) {
          std::vector<float> scratch(static_cast<size_t>(floats) + 1, kNaN);
          scratch.back() = kUntouched;
          ASSERT_TRUE(SameBits(p.Run(FastKernels(), 0, shape.m, scratch.data(), floats), want))
              << floats << " floats of scratch";
          ASSERT_EQ(scratch.back(), kUntouched) << "wrote past the scratch";
        }
      }
    }
  }
}

TEST(Matmul, ColumnsDoNotDependOnTheTiling) {
  Random random(8);
  for (const bool transposed : {true, false}) {
    constexpr int64_t kM = 5, kN = 70, kK = 45;
    const std::vector<float> a = random.Normals(kM * kK);
    const std::vector<float> b = random.Normals(kN * kK);
    MatmulArgs args;
    args.a = a.data();
    args.a_stride = kK;
    args.b_stride = transposed ? kK : kN;
    args.m = kM;
    args.k = kK;
    args.c_stride = kN;
    const auto run = [&](int64_t first, int64_t count, std::vector<float>& c) {
      args.b = b.data() + (transposed ? first * kK : first);
      args.c = c.data() + first;
      args.n = count;
      (transposed ? MatmulNt : MatmulNn)(args);
    };
    std::vector<float> whole(kM * kN);
    run(0, kN, whole);
    for (const int64_t step : {4, 12, 64}) {
      std::vector<float> parts(kM * kN);
      for (int64_t first = 0; first < kN; first += step) {
        run(first, std::min(step, kN - first), parts);
      }
      // Nt has one order for every element. Nn switches between fused and plain tails, which
      // depend on the column's place among the vectors.
      if (transposed) {
        EXPECT_TRUE(SameBits(whole, parts)) << "step " << step;
      } else {
        EXPECT_LT(RelativeError(parts, whole), kK * kRoundF32) << "step " << step;
      }
    }
  }
}

TEST(Matmul, EmptySumGivesTheBias) {
  const float bias[] = {1, -2, 3};
  for (const auto& kernels : {FastKernels(), ReferenceKernels()}) {
    std::vector<float> c = {9, 9, 9};
    MatmulArgs args;
    args.a = bias;
    args.b = bias;
    args.bias = bias;
    args.c = c.data();
    args.c_stride = 3;
    args.m = 1;
    args.n = 3;
    args.k = 0;
    kernels.matmul_nt(args);
    EXPECT_EQ(c, (std::vector<float>{1, -2, 3}));
    kernels.matmul_nn(args);
    EXPECT_EQ(c, (std::vector<float>{1, -2, 3}));
  }
}

TEST(Matmul, NaNReachesItsRowAndColumnOnly) {
  Random random(9);
  constexpr int64_t kM = 6, kN = 11, kK = 19;
  for (int64_t bad = 0; bad < kK; bad += 6) {
    std::vector<float> a = random.Normals(kM * kK);
    a[static_cast<size_t>(2 * kK + bad)] = kNaN;
    std::vector<float> weights = random.Normals(kN * kK);
    weights[static_cast<size_t>(5 * kK + bad)] = kNaN;
    const StoredMatrix b(weights, kN, kK, Elem::kBf16);
    std::vector<float> c(kM * kN);
    MatmulArgs args;
    args.a = a.data();
    args.a_stride = kK;
    args.b = b.data();
    args.b_stride = kK;
    args.b_type = Elem::kBf16;
    args.c = c.data();
    args.c_stride = kN;
    args.m = kM;
    args.n = kN;
    args.k = kK;
    MatmulNt(args);
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        EXPECT_EQ(std::isnan(c[static_cast<size_t>(i * kN + j)]), i == 2 || j == 5);
      }
    }
  }
}

}  // namespace
}  // namespace mla
