// The kernel over int8 latent rows against plain double, with a bound from its roundings, on every
// family that this machine has.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "kernels/kernel_table.h"
#include "kernels/latent_int8.h"
#include "support/compare.h"
#include "support/random.h"

namespace mla {
namespace {

struct Shape {
  int64_t rank, rope, heads, rows, window;
  double spread;  // standard deviation of the scores, about
};

constexpr Shape kShapes[] = {
    {512, 64, 16, 1, 150, 1},  {512, 64, 20, 1, 64, 3},  {41, 6, 5, 1, 131, 1},
    {41, 6, 5, 4, 70, 2},      {1, 2, 1, 1, 3, 1},       {64, 16, 8, 3, 200, 6},
    {33, 2, 33, 2, 65, 1},     {256, 32, 40, 1, 129, 2}, {128, 130, 7, 5, 63, 1},
    {700, 64, 128, 1, 100, 1}, {30, 8, 3, 9, 64, 1},     {512, 64, 17, 2, 77, 30},
};

struct Result {
  std::vector<float> out, lse;
};

class Case {
 public:
  Case(const Shape& s, uint64_t seed) : shape(s) {
    Random random(seed);
    format.type = Elem::kInt8;
    format.rope_type = Elem::kF16;
    format.rank = s.rank;
    format.rope = s.rope;
    format.row_bytes = Int8RowBytes(s.rank, s.rope);
    format.rope_offset = Int8RopeOffset(s.rank);
    const double deviation = s.spread / std::sqrt(static_cast<double>(s.rank + s.rope));
    q = random.Normals(s.rows * s.heads * (s.rank + s.rope), deviation);
    // Behind the window a whole tile that must not be read: a scale of NaN reaches every output.
    rows.assign(static_cast<size_t>((s.window + kLatentTileRows) * format.row_bytes), '\xff');
    for (int64_t i = 0; i < s.window; ++i) {
      // Rows of very different size, so that the scales matter.
      SetRow(i, random.Normals(s.rank + s.rope, i % 5 == 0 ? 3 : i % 3 == 0 ? 0.02 : 1));
    }
  }

  void SetRow(int64_t i, const std::vector<float>& values) {
    char* row = rows.data() + i * format.row_bytes;
    QuantizeInt8Row(values.data(), shape.rank, row);
    FromFloat(values.data() + shape.rank, Elem::kF16, row + format.rope_offset, shape.rope);
  }

  std::vector<float> Row(int64_t i) const {
    const char* row = rows.data() + i * format.row_bytes;
    std::vector<float> values(static_cast<size_t>(shape.rank + shape.rope));
    DequantizeInt8Row(row, shape.rank, values.data());
    ToFloat(row + format.rope_offset, Elem::kF16, values.data() + shape.rank, shape.rope);
    return values;
  }

  // Query row i sees the first window - rows + 1 + i keys, in tiles of `tile`.
  Result Run(const KernelTable& kernels, int64_t tile_rows) const {
    const int64_t pairs = shape.rows * shape.heads;
    Result r{std::vector<float>(static_cast<size_t>(pairs * shape.rank), kNaN),
             std::vector<float>(static_cast<size_t>(pairs), kNaN)};
    std::vector<float> scratch(
        static_cast<size_t>(LatentScratchFloats(format, shape.rows, shape.heads) + 16), kNaN);
    LatentTask task;
    task.q = q.data();
    task.q_head_stride = shape.rank + shape.rope;
    task.q_row_stride = shape.heads * task.q_head_stride;
    task.rows = shape.rows;
    task.heads = shape.heads;
    task.format = format;
    task.scratch =
        reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    task.out = r.out.data();
    task.out_head_stride = shape.rank;
    task.out_row_stride = shape.heads * shape.rank;
    task.lse = r.lse.data();
    task.lse_row_stride = shape.heads;
    kernels.latent_begin(task);
    for (int64_t p = 0; p < shape.window; p += tile_rows) {
      LatentTileRows tile;
      tile.data = rows.data() + p * format.row_bytes;
      tile.count = std::min(tile_rows, shape.window - p);
      tile.visible = shape.window - shape.rows + 1 - p;
      kernels.latent_tile(task, tile);
    }
    kernels.latent_finish(task);
    return r;
  }

  Shape shape;
  LatentFormat format;
  std::vector<float> q;
  std::vector<char> rows;
};

// docs/kernels/int8_latent.md: a query element is off by half a step of max|q| / Int8QueryMax, so a
// score by at most that times the row's sum of magnitudes; a weight by half a step of the tile's
// largest; besides fp32 rounding of scores, exponentials and sums.
void ExpectWithinBound(const Case& c, const Result& got) {
  const Shape& s = c.shape;
  std::vector<std::vector<float>> keys;
  double largest = 0;
  for (int64_t i = 0; i < s.window; ++i) {
    keys.push_back(c.Row(i));
    for (int64_t x = 0; x < s.rank; ++x) {
      largest = std::max(largest, std::fabs(static_cast<double>(keys.back()[x])));
    }
  }
  for (int64_t pair = 0; pair < s.rows * s.heads; ++pair) {
    const float* q = c.q.data() + pair * (s.rank + s.rope);
    double q_max = 0;
    for (int64_t x = 0; x < s.rank; ++x) q_max = std::max(q_max, std::fabs(double{q[x]}));
    const int64_t seen = s.window - s.rows + 1 + pair / s.heads;
    std::vector<double> scores;
    double max = -kInfinity, off = 0;
    for (int64_t i = 0; i < seen; ++i) {
      double score = 0, sum = 0, magnitude = 0;
      for (int64_t x = 0; x < s.rank + s.rope; ++x) {
        score += double{q[x]} * keys[i][x];
        magnitude += std::fabs(double{q[x]} * keys[i][x]);
        if (x < s.rank) sum += std::fabs(double{keys[i][x]});
      }
      scores.push_back(score);
      max = std::max(max, score);
      off = std::max(off, q_max / (2.0 * static_cast<double>(Int8QueryMax(s.rank))) * sum +
                              magnitude * kRoundF32 * static_cast<double>(s.rope + 8));
    }
    double total = 0;
    for (double& p : scores) total += p = std::exp(p - max);
    // exp of an error of `off` on both sides of the quotient, half a step of each weight, sums.
    const double tiles = static_cast<double>((seen + 63) / 64);
    const double bound = largest * (std::expm1(2 * off) +
                                    static_cast<double>(seen) / (2.0 * kInt8WeightMax) *
                                        std::min(1.0, 1 / total) * 1.01 +
                                    kRoundF32 * (8 + 4 * tiles));
    for (int64_t x = 0; x < s.rank; ++x) {
      double want = 0;
      for (int64_t i = 0; i < seen; ++i) want += scores[i] * keys[i][x];
      ASSERT_NEAR(got.out[pair * s.rank + x], want / total, bound)
          << "pair " << pair << " column " << x;
    }
    ASSERT_NEAR(got.lse[pair], (max + std::log(total)) / std::log(2.0),
                off * 1.4427 + 1e-5 + std::fabs(max) * 4e-7)
        << "pair " << pair;
  }
}

std::string Name(const Shape& s) {
  return "rank " + std::to_string(s.rank) + " heads " + std::to_string(s.heads) + " rows " +
         std::to_string(s.rows) + " window " + std::to_string(s.window);
}

TEST(LatentInt8, WithinTheBoundOfDouble) {
  uint64_t seed = 1;
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(Name(s));
    const Case c(s, seed++);
    for (const int64_t tile : {64, 37, 1}) {
      SCOPED_TRACE(tile);
      ExpectWithinBound(c, c.Run(FastKernels(), tile));
    }
    ExpectWithinBound(c, c.Run(ReferenceKernels(), 64));
  }
}

// Sums of integers are exact, so the dot unit changes no bit.
TEST(LatentInt8, FamiliesAgreeBitForBit) {
  const std::string family = Int8LatentFamily();
  std::printf("int8 family: %s\n", family.c_str());
  for (const Shape& s : kShapes) {
    const Case c(s, 50);
    const Result with = c.Run(FastKernels(), 64);
    UseInt8DotUnit(false);
    EXPECT_STREQ(Int8LatentFamily(), "pairs");
    const Result without = c.Run(FastKernels(), 64);
    UseInt8DotUnit(true);
    EXPECT_EQ(Int8LatentFamily(), family);
    EXPECT_TRUE(SameBits(with.out, without.out)) << Name(s);
    EXPECT_TRUE(SameBits(with.lse, without.lse)) << Name(s);
  }
}

// 20,000 equal keys of weight 1 after a dominant one: what they add up to is not lost.
TEST(LatentInt8, LongFlatTail) {
  const Shape s = {16, 2, 4, 1, 20000, 0};
  Case c(s, 3);
  std::vector<float> peak(18, 0.0f), flat(18, 0.0f);
  peak[0] = 1;
  flat[1] = 1;
  c.SetRow(0, peak);
  for (int64_t i = 1; i < s.window; ++i) c.SetRow(i, flat);
  std::fill(c.q.begin(), c.q.end(), 0.0f);
  for (int64_t h = 0; h < s.heads; ++h) c.q[h * 18] = 12;  // e^12 = 162,755 against 19,999 ones
  const double peak_weight = std::exp(12.0);
  const double want = 19999 / (19999 + peak_weight);
  const Result got = c.Run(FastKernels(), 64);
  for (int64_t h = 0; h < s.heads; ++h) {
    // The first tile's 63 weights are below half a step of its largest, and only they.
    EXPECT_NEAR(got.out[h * 16 + 1], want, want * (63.0 / 19999 + 2e-4));
    EXPECT_NEAR(got.out[h * 16], 1 - want, 2e-4);
  }
}

TEST(LatentInt8, BrokenNumbersStayVisible) {
  const Shape s = {41, 6, 5, 3, 70, 1};
  for (const KernelTable* kernels : {&FastKernels(), &ReferenceKernels()}) {
    for (const float value : {kNaN, kInfinity}) {
      for (const int64_t column : {0, 40, 41, 46}) {
        // An infinite rotated element may give the score -inf, which is a weight of 0.
        if (column >= s.rank && std::isinf(value)) continue;
        // The last key is seen by the last query row alone.
        Case c(s, 7);
        const Result clean = c.Run(*kernels, 64);
        std::vector<float> row = c.Row(s.window - 1);
        row[column] = value;
        c.SetRow(s.window - 1, row);
        const Result got = c.Run(*kernels, 64);
        const size_t clear = static_cast<size_t>(2 * s.heads * s.rank);
        EXPECT_TRUE(SameBits({got.out.begin(), got.out.begin() + clear},
                             {clean.out.begin(), clean.out.begin() + clear}));
        for (size_t head = 0; head < 5; ++head) {
          const auto at = got.out.begin() + static_cast<int64_t>(clear + head * s.rank);
          EXPECT_FALSE(Finite({at, at + s.rank})) << kernels->name << " column " << column;
        }
        // In a query: its own head, no other.
        Case broken(s, 7);
        broken.q[47 * 6 + column] = value;  // row 1, head 1
        const Result other = broken.Run(*kernels, 64);
        for (int64_t pair = 0; pair < s.rows * s.heads; ++pair) {
          const auto at = other.out.begin() + pair * s.rank;
          EXPECT_EQ(Finite({at, at + s.rank}), pair != 6) << kernels->name << " pair " << pair;
        }
      }
    }
  }
}

TEST(LatentInt8, RowsAreWithinHalfAStep) {
  Random random(5);
  for (const int64_t rank : {1, 3, 41, 64, 512}) {
    for (const double size : {1e-30, 1e-3, 1.0, 1e30}) {
      const std::vector<float> x = random.Normals(rank, size);
      std::vector<char> row(static_cast<size_t>(Int8RowBytes(rank, 2)));
      std::vector<float> back(x.size());
      QuantizeInt8Row(x.data(), rank, row.data());
      DequantizeInt8Row(row.data(), rank, back.data());
      double largest = 0;
      for (const float v : x) largest = std::max(largest, std::fabs(double{v}));
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(back[i], x[i], largest * (1 / 254.0 + 0x1p-22));
      }
    }
  }
  const std::vector<float> zeros(8, 0.0f);
  std::vector<char> row(static_cast<size_t>(Int8RowBytes(8, 2)));
  std::vector<float> back(8, kNaN);
  QuantizeInt8Row(zeros.data(), 8, row.data());
  DequantizeInt8Row(row.data(), 8, back.data());
  EXPECT_EQ(back, zeros);
}

TEST(LatentInt8, NoVisibleKeyGivesZeros) {
  const Shape s = {41, 6, 5, 1, 64, 1};
  Case c(s, 9);
  c.shape.window = 0;
  const Result got = c.Run(FastKernels(), 64);
  EXPECT_EQ(got.out, std::vector<float>(got.out.size(), 0.0f));
  EXPECT_EQ(got.lse, std::vector<float>(got.lse.size(), -kInfinity));
}

}  // namespace
}  // namespace mla
