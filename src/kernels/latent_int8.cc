#include "kernels/latent_int8.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attend.h"
#include "kernels/x86/dot_units.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/latent_int8.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "kernels/exp2-inl.h"
#include "kernels/int8_pairs-inl.h"
#include "kernels/tile-inl.h"

// The schedule (docs/kernels/int8_latent.md): as in latent.cc query heads are the lanes of the
// scores and columns those of the output, with pairs of 16-bit integers where that has fp32: two
// columns per step of the scores, two rows per step of the output. Integer sums are exact, so
// neither blocking nor instruction set changes a bit of them.

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();
// Tiles whose largest weight is below this contribute nothing: its inverse must stay finite.
constexpr float kLeastWeight = 1e-30f;

// Register tiles: rows x groups of heads of the scores, heads x vectors of columns of the output.
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || \
    HWY_TARGET == HWY_EMU128
inline constexpr int kInt8Rows = 8, kInt8RowsOfTwo = 4, kInt8Vectors = 2;
#else
inline constexpr int kInt8Rows = 16, kInt8RowsOfTwo = 8, kInt8Vectors = 4;
#endif
inline constexpr int kInt8Heads = 4;

// Where the parts of a task's scratch lie. A group is one vector of heads of one query row.
struct Int8Layout {
  explicit Int8Layout(const LatentTask& task)
      : lanes(static_cast<int64_t>(hn::Lanes(DF()))),
        columns((task.format.rank + 2 * lanes - 1) / (2 * lanes) * 2 * lanes),
        words(columns / 2),
        rope(task.format.rope),
        heads(task.heads),
        full(heads / lanes),
        rest(heads % lanes),
        groups(full + (rest > 0 ? 1 : 0)),
        dot_rest(rest > 0 && (rest + 3) / 4 * 4 < lanes) {
    const int64_t all = task.rows * groups;
    const int64_t tile = all * kLatentRunRows * lanes;
    const auto ints = [](float* p) { return reinterpret_cast<int32_t*>(p); };
    float* next = task.scratch;
    const auto take = [&](int64_t n) {
      float* at = next;
      next += (n + 15) / 16 * 16;
      return at;
    };
    q = ints(take(all * words * lanes));
    q_rope = take(all * rope * lanes);
    q_scale = take(all * lanes);
    max = take(all * lanes);
    sum = take(all * lanes);
    shrink = take(all * lanes);
    factor = take(all * lanes);
    sums = ints(take(tile));
    scores = take(tile);
    acc = take(task.rows * heads * columns);
    piece = ints(take(std::max(kScorePieceWords, kOutputPieceWords) + kMaxLanes));
    row_scale = take(kLatentRunRows);
    partial = ints(take(dot_rest ? task.rows * (rest + 3) / 4 * 4 * kLatentRunRows * lanes : 0));
    floats = next - task.scratch;
  }

  int64_t Group(int64_t query, int64_t group) const { return query * groups + group; }
  int32_t* Q(int64_t query, int64_t group) const { return q + Group(query, group) * words * lanes; }
  int32_t* Sums(int64_t query, int64_t group) const {
    return sums + Group(query, group) * kLatentRunRows * lanes;
  }
  float* Scores(int64_t query, int64_t group) const {
    return scores + Group(query, group) * kLatentRunRows * lanes;
  }
  int32_t* Partial(int64_t query, int64_t head) const {
    return partial + (query * ((rest + 3) / 4 * 4) + head) * kLatentRunRows * lanes;
  }

  int64_t lanes, columns, words, rope, heads;
  int64_t full, rest, groups;  // whole groups per query row, heads beyond them, both
  bool dot_rest;               // the heads beyond have lanes along the row instead
  int32_t* q;                  // [rows, groups, words, lanes]; with dot_rest the last [rest, words]
  float* q_rope;               // [rows, groups, rope, lanes], log2 units
  float *q_scale, *max, *sum, *shrink, *factor;  // [rows, groups, lanes]
  int32_t* sums;  // [rows, groups, kLatentRunRows, lanes]; then weights, pairs of rows
  float* scores;  // [rows, groups, kLatentRunRows, lanes]
  float* acc;     // [rows, heads, columns]
  int32_t* piece;
  float* row_scale;  // [kLatentRunRows]
  int32_t* partial;  // [rows, rest, kLatentRunRows, lanes]
  int64_t floats;
};

int64_t Int8ScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) {
  LatentTask task;
  task.format = format;
  task.rows = rows;
  task.heads = heads;
  return Int8Layout(task).floats;
}

// One head of one query row: 16-bit integers with a common scale.
void QuantizeQuery(const LatentTask& task, const Int8Layout& l, int64_t query, int64_t head) {
  const float* from = task.q + query * task.q_row_stride + head * task.q_head_stride;
  const int64_t rank = task.format.rank;
  const int64_t group = head / l.lanes, lane = head % l.lanes;
  const int64_t at = l.Group(query, group) * l.lanes + lane;
  float largest = 0;
  bool finite = true;
  for (int64_t x = 0; x < rank; ++x) {
    const float magnitude = std::fabs(from[x]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = std::max(largest, magnitude);
  }
  const double most = static_cast<double>(Int8QueryMax(rank));
  const bool some = finite && largest > 0;
  const double inverse = some ? most / static_cast<double>(largest) : 0;
  l.q_scale[at] = finite ? static_cast<float>(static_cast<double>(largest) / most) * kLog2E
                         : std::numeric_limits<float>::quiet_NaN();
  const bool dot = l.dot_rest && group == l.full;
  int32_t* to = l.Q(query, group) + (dot ? lane * l.words : lane);
  const int64_t step = dot ? 1 : l.lanes;
  const auto digit = [&](int64_t x) -> uint32_t {
    if (x >= rank || !some) return 0;
    return static_cast<uint32_t>(std::lrint(static_cast<double>(from[x]) * inverse)) & 0xffffu;
  };
  for (int64_t word = 0; word < l.words; ++word) {
    to[word * step] = static_cast<int32_t>(digit(2 * word) | digit(2 * word + 1) << 16);
  }
  float* rope = l.q_rope + l.Group(query, group) * l.rope * l.lanes + lane;
  for (int64_t x = 0; x < l.rope; ++x) rope[x * l.lanes] = from[rank + x] * kLog2E;
}

void Int8Begin(const LatentTask& task) {
  const Int8Layout l(task);
  const int64_t all = task.rows * l.groups;
  std::fill(l.q, l.q + all * l.words * l.lanes, 0);
  std::fill(l.q_rope, l.q_rope + all * l.rope * l.lanes, 0.0f);
  std::fill(l.q_scale, l.q_scale + all * l.lanes, 0.0f);
  std::fill(l.max, l.max + all * l.lanes, kNoScore);
  std::fill(l.sum, l.sum + all * l.lanes, 0.0f);
  std::fill(l.acc, l.acc + task.rows * l.heads * l.columns, 0.0f);
  for (int64_t query = 0; query < task.rows; ++query) {
    for (int64_t head = 0; head < l.heads; ++head) QuantizeQuery(task, l, query, head);
  }
}

HWY_INLINE int64_t SeenRows(const LatentTileRows& tile, int64_t query) {
  return std::clamp<int64_t>(tile.visible + query, 0, tile.count);
}

// sums[row][group] += the products of `words` pairs of columns, for TR rows and G groups.
template <bool kUnit, int TR, int G>
HWY_INLINE void SumTile(const int32_t* HWY_RESTRICT piece, int64_t words,
                        const int32_t* HWY_RESTRICT q, int64_t q_group, int32_t* HWY_RESTRICT sums,
                        int64_t sum_group, bool fresh, Prefetcher& prefetcher) {
  const DI d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VI acc[TR][G];
  for (int i = 0; i < TR; ++i) {
    for (int g = 0; g < G; ++g) {
      acc[i][g] = fresh ? hn::Zero(d) : hn::LoadU(d, sums + g * sum_group + i * lanes);
    }
  }
  for (int64_t x = 0; x < words; ++x) {
    if (x % 16 == 0) prefetcher.Next();
    VI qv[G];
    for (int g = 0; g < G; ++g) qv[g] = hn::LoadU(d, q + g * q_group + x * lanes);
    for (int i = 0; i < TR; ++i) {
      const VI k = hn::Set(d, piece[i * kScoreStride + x]);
      for (int g = 0; g < G; ++g) acc[i][g] = DotPairs<kUnit>(acc[i][g], k, qv[g]);
    }
  }
  for (int i = 0; i < TR; ++i) {
    for (int g = 0; g < G; ++g) hn::StoreU(acc[i][g], d, sums + g * sum_group + i * lanes);
  }
}

// G groups from `group` on of one query row against `rows` rows of the piece.
template <bool kUnit, int TR, int G>
HWY_INLINE void SumGroups(const Int8Layout& l, int64_t query, int64_t group, int64_t first,
                          int64_t words, int64_t rows, Prefetcher& prefetcher) {
  const int32_t* q = l.Q(query, group) + first * l.lanes;
  int32_t* sums = l.Sums(query, group);
  ForEachRowBlock<TR>(rows, [&](auto count, int64_t i) {
    SumTile<kUnit, count(), G>(l.piece + i * kScoreStride, words, q, l.words * l.lanes,
                               sums + i * l.lanes, kLatentRunRows * l.lanes, first == 0,
                               prefetcher);
  });
}

// The heads beyond the whole groups, four at a time, with lanes along the row: sums stay vectors
// until the row's last piece.
template <bool kUnit>
HWY_INLINE void SumRest(const Int8Layout& l, int64_t query, int64_t first, int64_t words,
                        int64_t rows) {
  const DI d;
  constexpr int kHeads = 4;
  const bool last = first + words == l.words;
  for (int64_t head = 0; head < l.rest; head += kHeads) {
    const int64_t heads = std::min<int64_t>(kHeads, l.rest - head);
    const int32_t* q[kHeads];
    for (int h = 0; h < kHeads; ++h) {
      q[h] = l.Q(query, l.full) + std::min<int64_t>(head + h, l.rest - 1) * l.words + first;
    }
    ForEachRowBlock<4>(rows, [&](auto count, int64_t row) {
      constexpr int kCount = count();
      VI acc[kHeads][kCount];
      for (int h = 0; h < kHeads; ++h) {
        for (int i = 0; i < kCount; ++i) {
          acc[h][i] = first == 0 ? hn::Zero(d)
                                 : hn::LoadU(d, l.Partial(query, head + h) + (row + i) * l.lanes);
        }
      }
      for (int64_t x = 0; x < words; x += l.lanes) {
        VI k[kCount];
        for (int i = 0; i < kCount; ++i) {
          k[i] = hn::LoadU(d, l.piece + (row + i) * kScoreStride + x);
        }
        for (int h = 0; h < kHeads; ++h) {
          const VI qv = hn::LoadU(d, q[h] + x);
          for (int i = 0; i < kCount; ++i) acc[h][i] = DotPairs<kUnit>(acc[h][i], k[i], qv);
        }
      }
      for (int h = 0; h < kHeads; ++h) {
        for (int i = 0; i < kCount; ++i) {
          if (!last) {
            hn::StoreU(acc[h][i], d, l.Partial(query, head + h) + (row + i) * l.lanes);
          } else if (h < heads) {
            l.Sums(query, l.full)[(row + i) * l.lanes + head + h] =
                hn::GetLane(hn::SumOfLanes(d, acc[h][i]));
          }
        }
      }
    });
  }
}

template <bool kUnit>
void Int8Sums(const LatentTask& task, const Int8Layout& l, const LatentTileRows& tile,
              int64_t most) {
  const LatentFormat& f = task.format;
  const int64_t calls = std::max<int64_t>(1, most / kInt8Rows) * ((l.words + 15) / 16) * task.rows *
                        std::max<int64_t>(1, (l.full + 1) / 2);
  Prefetcher prefetcher(tile.next, tile.next_count * f.row_bytes, calls);
  const int64_t whole = l.dot_rest ? l.full : l.groups;
  for (int64_t first = 0; first < l.words; first += kScorePieceColumns / 2) {
    const int64_t words = std::min(kScorePieceColumns / 2, l.words - first);
    WidenColumns(static_cast<const int8_t*>(tile.data), f.row_bytes, most, f.rank, 2 * first, words,
                 l.piece);
    for (int64_t query = 0; query < task.rows; ++query) {
      const int64_t seen = SeenRows(tile, query);
      if (seen == 0) continue;
      int64_t group = 0;
      for (; group + 2 <= whole; group += 2) {
        SumGroups<kUnit, kInt8RowsOfTwo, 2>(l, query, group, first, words, seen, prefetcher);
      }
      if (group < whole) {
        SumGroups<kUnit, kInt8Rows, 1>(l, query, group, first, words, seen, prefetcher);
      }
      if (l.dot_rest) SumRest<kUnit>(l, query, first, words, seen);
    }
  }
}

// The rotated part of the scores, in fp32.
void RopeScores(const LatentTask& task, const Int8Layout& l, const LatentTileRows& tile,
                int64_t most) {
  const DF d;
  const LatentFormat& f = task.format;
  const char* data = static_cast<const char*>(tile.data);
  float* piece = reinterpret_cast<float*>(l.piece);
  for (int64_t first = 0; first < l.rope; first += kRopePieceColumns) {
    const int64_t count = std::min(kRopePieceColumns, l.rope - first);
    for (int64_t row = 0; row < most; ++row) {
      const auto* from =
          reinterpret_cast<const hwy::float16_t*>(data + row * f.row_bytes + f.rope_offset) + first;
      float* to = piece + row * kRopePieceColumns;
      int64_t x = 0;
      for (; x + l.lanes <= count; x += l.lanes) hn::StoreU(LoadElems(d, from + x), d, to + x);
      for (; x < count; ++x) to[x] = LoadElem(from + x);
    }
    for (int64_t query = 0; query < task.rows; ++query) {
      const int64_t seen = SeenRows(tile, query);
      for (int64_t group = 0; group < l.groups; ++group) {
        const float* q = l.q_rope + (l.Group(query, group) * l.rope + first) * l.lanes;
        float* scores = l.Scores(query, group);
        ForEachRowBlock<kInt8Rows>(seen, [&](auto rows, int64_t i) {
          VF acc[rows()];
          for (int j = 0; j < rows(); ++j) {
            acc[j] = first == 0 ? hn::Zero(d) : hn::LoadU(d, scores + (i + j) * l.lanes);
          }
          for (int64_t x = 0; x < count; ++x) {
            const VF qv = InRegister(hn::LoadU(d, q + x * l.lanes));
            for (int j = 0; j < rows(); ++j) {
              acc[j] = hn::MulAdd(hn::Set(d, piece[(i + j) * kRopePieceColumns + x]), qv, acc[j]);
            }
          }
          for (int j = 0; j < rows(); ++j) hn::StoreU(acc[j], d, scores + (i + j) * l.lanes);
        });
      }
    }
  }
}

// Sums to weights, for one group of heads: 16-bit integers on the scale of the tile's largest, so
// that the weights of a tile in a long flat tail keep their precision.
void Int8Softmax(const Int8Layout& l, int64_t query, int64_t group, int64_t seen) {
  const DF d;
  const DI di;
  float* s = l.Scores(query, group);
  int32_t* sums = l.Sums(query, group);
  const int64_t at = l.Group(query, group) * l.lanes;
  const VF q_scale = hn::LoadU(d, l.q_scale + at);
  VF best = hn::Set(d, kNoScore);
  for (int64_t i = 0; i < seen; ++i) {
    const VF sum = hn::ConvertTo(d, hn::LoadU(di, sums + i * l.lanes));
    const VF scale = hn::Mul(q_scale, hn::Set(d, l.row_scale[i]));
    const VF score = hn::MulAdd(sum, scale, hn::LoadU(d, s + i * l.lanes));
    hn::StoreU(score, d, s + i * l.lanes);
    best = hn::Max(best, score);
  }
  const VF old = hn::LoadU(d, l.max + at);
  const VF max = hn::Max(old, best);
  // With only -inf so far the weights must come out as 0, not as exp(-inf + inf).
  const VF shift = hn::IfThenElse(hn::Eq(max, hn::Set(d, kNoScore)), hn::Zero(d), max);
  VF total = hn::Zero(d);
  VF largest = hn::Zero(d);
  for (int64_t i = 0; i < seen; ++i) {
    const VF p = Exp2NotAboveZero(d, hn::Sub(hn::LoadU(d, s + i * l.lanes), shift));
    total = hn::Add(total, p);
    // NaN is kept by the sum; as a weight it has no integer.
    const VF w = hn::Mul(p, hn::Set(d, l.row_scale[i]));
    const VF weight = hn::IfThenElseZero(hn::Eq(w, w), w);
    hn::StoreU(weight, d, s + i * l.lanes);
    largest = hn::Max(largest, weight);
  }
  const auto some = hn::Ge(largest, hn::Set(d, kLeastWeight));
  const VF most = hn::Set(d, static_cast<float>(kInt8WeightMax));
  const VF inverse = hn::IfThenElseZero(some, hn::Div(most, largest));
  const auto digit = [&](int64_t i) {
    return hn::NearestInt(hn::Mul(hn::LoadU(d, s + i * l.lanes), inverse));
  };
  for (int64_t i = 0; i < seen; i += 2) {
    const VI low = hn::And(digit(i), hn::Set(di, 0xffff));
    const VI high = i + 1 < seen ? hn::ShiftLeft<16>(digit(i + 1)) : hn::Zero(di);
    hn::StoreU(hn::Or(low, high), di, sums + i / 2 * l.lanes);
  }
  const VF shrink = Exp2NotAboveZero(d, hn::Sub(old, shift));
  hn::StoreU(hn::MulAdd(hn::LoadU(d, l.sum + at), shrink, total), d, l.sum + at);
  hn::StoreU(max, d, l.max + at);
  hn::StoreU(shrink, d, l.shrink + at);
  hn::StoreU(hn::IfThenElseZero(some, hn::Div(largest, most)), d, l.factor + at);
}

// acc = acc·shrink + factor · (weights·rows), MR heads x NV vectors of columns.
template <bool kUnit, int MR, int NV>
HWY_INLINE void Int8OutputTile(const Int8Layout& l, int64_t query, int64_t head, int64_t pairs,
                               const int32_t* HWY_RESTRICT v, float* HWY_RESTRICT acc) {
  const DF d;
  const DI di;
  const int64_t lanes = l.lanes;
  VI c[MR][NV];
  const int32_t* weight[MR];
  for (int i = 0; i < MR; ++i) {
    weight[i] = l.Sums(query, (head + i) / lanes) + (head + i) % lanes;
    for (int j = 0; j < NV; ++j) c[i][j] = hn::Zero(di);
  }
  for (int64_t pair = 0; pair < pairs; ++pair) {
    VI vv[NV];
    for (int j = 0; j < NV; ++j) vv[j] = hn::LoadU(di, v + j * kPanelWords + pair * lanes);
    for (int i = 0; i < MR; ++i) {
      const VI w = hn::Set(di, weight[i][pair * lanes]);
      for (int j = 0; j < NV; ++j) c[i][j] = DotPairs<kUnit>(c[i][j], vv[j], w);
    }
  }
  for (int i = 0; i < MR; ++i) {
    const int64_t at = l.Group(query, 0) * lanes + head + i;
    const VF shrink = hn::Set(d, l.shrink[at]);
    const VF factor = hn::Set(d, l.factor[at]);
    for (int j = 0; j < NV; ++j) {
      float* to = acc + i * l.columns + j * lanes;
      const VF kept = hn::Mul(hn::LoadU(d, to), shrink);
      hn::StoreU(hn::MulAdd(hn::ConvertTo(d, c[i][j]), factor, kept), d, to);
    }
  }
}

template <bool kUnit>
void Int8Output(const LatentTask& task, const Int8Layout& l, const LatentTileRows& tile,
                int64_t most) {
  const int64_t all = l.columns / l.lanes;
  for (int64_t panel = 0; panel < all; panel += kInt8Panels) {
    const int64_t panels = std::min(kInt8Panels, all - panel);
    InterleaveRows(static_cast<const int8_t*>(tile.data), task.format.row_bytes, most,
                   task.format.rank, panel * l.lanes, panels, l.piece);
    for (int64_t query = 0; query < task.rows; ++query) {
      const int64_t pairs = (SeenRows(tile, query) + 1) / 2;
      if (pairs == 0) continue;
      ForEachRowBlock<kInt8Heads>(l.heads, [&](auto heads, int64_t head) {
        float* acc = l.acc + (query * l.heads + head) * l.columns + panel * l.lanes;
        int64_t x = 0;
        for (; x + kInt8Vectors <= panels; x += kInt8Vectors) {
          Int8OutputTile<kUnit, heads(), kInt8Vectors>(
              l, query, head, pairs, l.piece + x * kPanelWords, acc + x * l.lanes);
        }
        for (; x < panels; ++x) {
          Int8OutputTile<kUnit, heads(), 1>(l, query, head, pairs, l.piece + x * kPanelWords,
                                            acc + x * l.lanes);
        }
      });
    }
  }
}

template <bool kUnit>
void Int8TileBy(const LatentTask& task, const LatentTileRows& tile) {
  const Int8Layout l(task);
  const int64_t most = SeenRows(tile, task.rows - 1);
  if (most == 0) return;
  const char* data = static_cast<const char*>(tile.data);
  for (int64_t i = 0; i < most; ++i) {
    std::memcpy(l.row_scale + i,
                data + i * task.format.row_bytes + Int8ScaleOffset(task.format.rank),
                sizeof(float));
  }
  Int8Sums<kUnit>(task, l, tile, most);
  RopeScores(task, l, tile, most);
  for (int64_t query = 0; query < task.rows; ++query) {
    const int64_t seen = SeenRows(tile, query);
    if (seen == 0) continue;
    for (int64_t group = 0; group < l.groups; ++group) Int8Softmax(l, query, group, seen);
  }
  Int8Output<kUnit>(task, l, tile, most);
}

void Int8TilePairs(const LatentTask& task, const LatentTileRows& tile) {
  Int8TileBy<false>(task, tile);
}
// The same where the ISA has no dot unit.
void Int8TileUnit(const LatentTask& task, const LatentTileRows& tile) {
  Int8TileBy<kHasDotPairsUnit>(task, tile);
}

void Int8Finish(const LatentTask& task) {
  const Int8Layout l(task);
  for (int64_t query = 0; query < task.rows; ++query) {
    for (int64_t head = 0; head < l.heads; ++head) {
      const int64_t at = l.Group(query, 0) * l.lanes + head;
      // The sum is 0 only for a row that saw no key; NaN must stay visible.
      const bool saw = !(l.sum[at] == 0.0f);
      const float inverse = saw ? 1.0f / l.sum[at] : 0.0f;
      const float* acc = l.acc + (query * l.heads + head) * l.columns;
      float* out = task.out + query * task.out_row_stride + head * task.out_head_stride;
      for (int64_t x = 0; x < task.format.rank; ++x) {
        out[x] = acc[InterleavedColumn(x, l.lanes)] * inverse;
      }
      if (task.lse != nullptr) {
        task.lse[query * task.lse_row_stride + head] =
            saw ? std::log2(l.sum[at]) + l.max[at] : kNoScore;
      }
    }
  }
}

int DotPairsUnit() { return kDotPairsUnit; }

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {
namespace {

HWY_EXPORT(Int8ScratchFloats);
HWY_EXPORT(Int8Begin);
HWY_EXPORT(Int8TilePairs);
HWY_EXPORT(Int8TileUnit);
HWY_EXPORT(Int8Finish);
HWY_EXPORT(DotPairsUnit);

std::atomic<bool> use_dot_unit{true};

// The dot unit that the chosen ISA's kernel uses, if this processor has it and gets it right.
const char* UsableUnit() {
  const int unit = use_dot_unit ? HWY_DYNAMIC_DISPATCH(DotPairsUnit)() : 0;
  static const bool zmm = TryDotUnit(DotUnit::kVnni512).empty();
  static const bool ymm = TryDotUnit(DotUnit::kVnni256).empty();
  if (unit == 512 && zmm) return DotUnitName(DotUnit::kVnni512);
  if (unit == 256 && ymm) return DotUnitName(DotUnit::kVnni256);
  return nullptr;
}

}  // namespace

void QuantizeInt8Row(const float* c_kv, int64_t rank, void* row) noexcept {
  float largest = 0;
  bool finite = true;
  for (int64_t x = 0; x < rank; ++x) {
    const float magnitude = std::fabs(c_kv[x]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = std::max(largest, magnitude);
  }
  const float scale = finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  // In double, so that neither the inverse of a tiny scale nor its rounding matters.
  const double inverse = finite && largest > 0 ? 127.0 / static_cast<double>(largest) : 0.0;
  int8_t* to = static_cast<int8_t*>(row);
  for (int64_t x = 0; x < rank; ++x) {
    to[x] = finite ? static_cast<int8_t>(std::lrint(static_cast<double>(c_kv[x]) * inverse))
                   : int8_t{0};
  }
  std::fill(to + rank, to + Int8ScaleOffset(rank), int8_t{0});
  std::memcpy(to + Int8ScaleOffset(rank), &scale, sizeof(scale));
}

void DequantizeInt8Row(const void* row, int64_t rank, float* out) noexcept {
  const int8_t* from = static_cast<const int8_t*>(row);
  float scale = 0;
  std::memcpy(&scale, from + Int8ScaleOffset(rank), sizeof(scale));
  for (int64_t x = 0; x < rank; ++x) out[x] = scale * static_cast<float>(from[x]);
}

int64_t LatentInt8ScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) noexcept {
  return HWY_DYNAMIC_DISPATCH(Int8ScratchFloats)(format, rows, heads);
}
void LatentInt8Begin(const LatentTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Int8Begin)(task); }
void LatentInt8Tile(const LatentTask& task, const LatentTileRows& tile) noexcept {
  if (UsableUnit() != nullptr) {
    HWY_DYNAMIC_DISPATCH(Int8TileUnit)(task, tile);
  } else {
    HWY_DYNAMIC_DISPATCH(Int8TilePairs)(task, tile);
  }
}
void LatentInt8Finish(const LatentTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Int8Finish)(task); }

const char* Int8LatentFamily() noexcept {
  const char* unit = UsableUnit();
  return unit != nullptr ? unit : "pairs";
}
void UseInt8DotUnit(bool use) noexcept { use_dot_unit = use; }

}  // namespace mla
#endif  // HWY_ONCE
