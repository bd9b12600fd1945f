// Random latent rows and queries, a run of the latent kernels over them, and the answer in double.
// Called by: tests of the latent kernels, fuzz_latent. Thread-safety: immutable after construction.
#ifndef MLA_TESTS_SUPPORT_LATENT_CASE_H_
#define MLA_TESTS_SUPPORT_LATENT_CASE_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>
#include <vector>

#include "base/float16.h"
#include "kernels/kernel_table.h"
#include "kernels/latent_int8.h"
#include "kernels/x86/latent_int8_amx.h"
#include "support/compare.h"
#include "support/random.h"

namespace mla {

struct LatentShape {
  int64_t rows = 1, heads = 1;  // of the queries
  int64_t rank = 1, rope = 2;   // of the cached rows
  int64_t keys = 1;             // cached rows that the last query row sees
  int64_t first = 0;            // position of the first
  Elem type = Elem::kF32;
  Elem rope_type = Elem::kF32;
  double score_scale = 1;  // standard deviation of the scores
  DotUnit unit = DotUnit::kFma;
};
inline std::ostream& operator<<(std::ostream& out, const LatentShape& s) {
  return out << "rows " << s.rows << " heads " << s.heads << " rank " << s.rank << " rope "
             << s.rope << " keys " << s.keys << " first " << s.first << " type "
             << static_cast<int>(s.type) << "/" << static_cast<int>(s.rope_type) << " scale "
             << s.score_scale;
}

struct LatentResult {
  std::vector<float> out;  // [rows, heads, rank]
  std::vector<float> lse;  // [rows, heads]
};

class LatentCase {
 public:
  static constexpr int64_t kPoisonRows = 3;

  LatentCase(const LatentShape& shape, uint64_t seed) : s(shape) {
    Random random(seed);
    const int64_t width = s.rank + s.rope;
    q = random.Normals(s.rows * s.heads * width,
                       s.score_scale / std::sqrt(static_cast<double>(width)));
    values = random.Normals(s.keys * width);
    format.type = s.type;
    format.rope_type = s.rope_type;
    format.rank = s.rank;
    format.rope = s.rope;
    format.unit = s.unit;
    format.rope_offset = s.rank * ElemSize(s.type);
    // Elements of both parts must be aligned; a gap of NaN follows each row.
    format.row_bytes = (format.rope_offset + s.rope * ElemSize(s.rope_type) + 7) / 4 * 4;
    if (format.rope_offset % ElemSize(s.rope_type) != 0) format.rope_offset += 2;
    if (s.type == Elem::kInt8) {
      format.rope_offset = Int8RopeOffset(s.rank);
      format.row_bytes = Int8RowBytes(s.rank, s.rope) + 4;
    }
    bytes.assign(static_cast<size_t>((s.keys + kPoisonRows) * format.row_bytes), 0xff);
    for (int64_t i = 0; i < s.keys; ++i) PutRow(i);
  }

  float& Value(int64_t key, int64_t column) {
    return values[static_cast<size_t>(key * (s.rank + s.rope) + column)];
  }
  /// Stores row `key` after its values changed.
  void PutRow(int64_t key) {
    const float* row = &Value(key, 0);
    char* to = Row(key);
    reference::FromFloat(row + s.rank, s.rope_type, to + format.rope_offset, s.rope);
    if (s.type == Elem::kInt8) {
      QuantizeInt8Row(row, s.rank, to);
      DequantizeInt8Row(to, s.rank, &Value(key, 0));
    } else {
      reference::FromFloat(row, s.type, to, s.rank);
      reference::ToFloat(to, s.type, &Value(key, 0), s.rank);
    }
    reference::ToFloat(to + format.rope_offset, s.rope_type, &Value(key, s.rank), s.rope);
  }
  char* Row(int64_t key) { return reinterpret_cast<char*>(bytes.data()) + key * format.row_bytes; }
  /// Keys that query row i sees: the last one sees all.
  int64_t Seen(int64_t row) const { return std::max<int64_t>(0, s.keys - (s.rows - 1 - row)); }

  /// Runs the rows [row, row + rows) and heads [head, head + heads) as one task.
  LatentResult Run(const KernelTable& kernels, int64_t row, int64_t rows, int64_t head,
                   int64_t heads) {
    LatentResult result;
    result.out.assign(static_cast<size_t>(rows * heads * s.rank), kNaN);
    result.lse.assign(static_cast<size_t>(rows * heads), kNaN);
    LatentTask task;
    const int64_t width = s.rank + s.rope;
    task.q = q.data() + (row * s.heads + head) * width;
    task.q_row_stride = s.heads * width;
    task.q_head_stride = width;
    task.rows = rows;
    task.heads = heads;
    task.format = format;
    const int64_t floats = LatentScratchFloats(format, rows, heads);
    // Marked on both sides: the kernels must stay inside.
    constexpr int64_t kGuard = 16;
    scratch.assign(static_cast<size_t>(floats + 2 * kGuard + 16), kNaN);
    float* aligned = scratch.data();
    while (reinterpret_cast<uintptr_t>(aligned) % 64 != 0) ++aligned;
    std::fill(aligned, aligned + kGuard, 12345.0f);
    std::fill(aligned + kGuard + floats, aligned + 2 * kGuard + floats, 12345.0f);
    task.scratch = aligned + kGuard;
    task.out = result.out.data();
    task.out_row_stride = heads * s.rank;
    task.out_head_stride = s.rank;
    task.lse = result.lse.data();
    task.lse_row_stride = heads;
    kernels.latent_begin(task);
    const int64_t end = Seen(row + rows - 1);
    const auto tile_end = [&](int64_t key) {
      const int64_t position = s.first + key;
      return std::min(end, (position / tile_rows + 1) * tile_rows - s.first);
    };
    for (int64_t key = 0; key < end;) {
      const int64_t next = tile_end(key);
      LatentTileRows tile;
      tile.data = Row(key);
      tile.count = next - key;
      // May be negative for the first rows: they see nothing of this tile.
      tile.visible = s.keys - (s.rows - 1 - row) - key;
      if (next < end) {
        tile.next = Row(next);
        tile.next_count = tile_end(next) - next;
      }
      kernels.latent_tile(task, tile);
      key = next;
    }
    kernels.latent_finish(task);
    intact = std::all_of(aligned, aligned + kGuard, [](float x) { return x == 12345.0f; }) &&
             std::all_of(aligned + kGuard + floats, aligned + 2 * kGuard + floats,
                         [](float x) { return x == 12345.0f; });
    return result;
  }
  LatentResult Run(const KernelTable& kernels) { return Run(kernels, 0, s.rows, 0, s.heads); }

  /// In double, over the values as stored: outputs, lse in log2 units, and the largest |score|,
  /// |value| that the rows met, from which bounds follow.
  struct Exact {
    std::vector<double> out, lse;
    double largest_score = 0, largest_value = 0, score_norm = 0;
    double largest_query = 0, key_norm = 0, rope_norm = 0;  // of c_kv, of c_kv, of k_rope's terms
  };
  Exact Want() {
    Exact e;
    const int64_t width = s.rank + s.rope;
    for (int64_t row = 0; row < s.rows; ++row) {
      for (int64_t head = 0; head < s.heads; ++head) {
        const float* query = q.data() + (row * s.heads + head) * width;
        std::vector<double> score(static_cast<size_t>(Seen(row)));
        double max = -std::numeric_limits<double>::infinity();
        for (int64_t key = 0; key < Seen(row); ++key) {
          double sum = 0, norm = 0, key_norm = 0, rope_norm = 0;
          for (int64_t x = 0; x < width; ++x) {
            const double term = static_cast<double>(query[x]) * Value(key, x);
            sum += term;
            norm += std::abs(term);
            if (x >= s.rank) {
              rope_norm += std::abs(term);
            } else {
              key_norm += std::abs(static_cast<double>(Value(key, x)));
              e.largest_query = std::max(e.largest_query, std::abs(static_cast<double>(query[x])));
            }
          }
          score[static_cast<size_t>(key)] = sum;
          max = std::max(max, sum);
          e.largest_score = std::max(e.largest_score, std::abs(sum));
          e.score_norm = std::max(e.score_norm, norm);
          e.key_norm = std::max(e.key_norm, key_norm);
          e.rope_norm = std::max(e.rope_norm, rope_norm);
        }
        double total = 0;
        std::vector<double> out(static_cast<size_t>(s.rank), 0);
        for (int64_t key = 0; key < Seen(row); ++key) {
          const double p = std::exp(score[static_cast<size_t>(key)] - max);
          total += p;
          for (int64_t x = 0; x < s.rank; ++x) {
            out[static_cast<size_t>(x)] += p * Value(key, x);
            e.largest_value =
                std::max(e.largest_value, std::abs(static_cast<double>(Value(key, x))));
          }
        }
        for (double& x : out) e.out.push_back(Seen(row) > 0 ? x / total : 0);
        e.lse.push_back(Seen(row) > 0 ? (max + std::log(total)) / std::log(2.0)
                                      : -std::numeric_limits<double>::infinity());
      }
    }
    return e;
  }

  LatentShape s;
  LatentFormat format;
  std::vector<float> q;       // [rows, heads, rank + rope]
  std::vector<float> values;  // [keys, rank + rope], as stored
  std::vector<uint8_t> bytes;
  std::vector<float> scratch;
  int64_t tile_rows = kLatentTileRows;  // tiles end at multiples of it
  bool intact = true;                   // of the scratch's surroundings, after the last run
};

/// What fp32 arithmetic may be off by, |out| measured by the largest |value|: a score is a sum of
/// `width` products, off by at most width·eps·sum|terms|, and a weight by as much relatively; the
/// weights' sum and the output are sums of `keys` terms, off by keys·eps.
inline double LatentFp32Bound(const LatentShape& s, const LatentCase::Exact& e) {
  const double width = static_cast<double>(s.rank + s.rope);
  // Rounding errors are as often up as down: sums of n err like sqrt(n), taken four times.
  return kRoundF32 * (8 + 4 * std::sqrt(width) * (1 + e.score_norm) +
                      4 * std::sqrt(static_cast<double>(s.keys)));
}

/// What a kernel over int8 rows may be off by: `out` measured by the largest |value|, `lse` in log2
/// units, beside its magnitude's own rounding.
struct LatentInt8Bounds {
  double out, lse;
};
/// `query_max`, `weight_max`: the magnitudes to which elements of a query and weights are
/// quantised; rope_parts: what a query's k_rope is off by, relatively.
/// - A query element is off by half a step (a hundredth more for the arithmetic), so a score by
/// that
///   times the row's sum of magnitudes; k_rope by rope_parts of its terms, both by rounding in
///   fp32: integer sums are exact, what follows are a few roundings and a sum over k_rope.
/// - A weight, probability times scale, is off by half a step of the tile's largest, that is by at
///   most largest scale / (2 weight_max), and 127 scales are at most the largest value; the
///   weights' sum is at least 1 in units of the largest. A score's error counts on both sides of
///   the quotient.
/// - Each tile's sums are added to the state with a few roundings.
inline LatentInt8Bounds Int8Bounds(const LatentCase& c, const LatentCase::Exact& e,
                                   int64_t query_max, int64_t weight_max, double rope_parts) {
  const double step = 0.51 * e.largest_query / static_cast<double>(query_max);
  const double score = step * e.key_norm + rope_parts * e.rope_norm +
                       e.score_norm * kRoundF32 * static_cast<double>(c.s.rope + 8);
  const double tiles = 2 + static_cast<double>(c.s.keys / std::min<int64_t>(c.tile_rows, 64));
  const double weights = 0.51 * static_cast<double>(c.s.keys) / static_cast<double>(weight_max);
  return {std::expm1(2 * score) + weights + kRoundF32 * (8 + 4 * tiles),
          1.4427 * score + kRoundF32 * (40 + 2 * static_cast<double>(c.s.keys))};
}
inline LatentInt8Bounds Int8VectorBounds(const LatentCase& c, const LatentCase::Exact& e) {
  return Int8Bounds(c, e, Int8QueryMax(c.s.rank), kInt8WeightMax, 0);
}
inline LatentInt8Bounds Int8AmxBounds(const LatentCase& c, const LatentCase::Exact& e) {
  return Int8Bounds(c, e, kInt8AmxMax, kInt8AmxMax, std::ldexp(1.0, -17));
}

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_LATENT_CASE_H_
