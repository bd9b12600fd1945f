// The products of the vector families for int8 latents: scores and output of one run of rows, over
// pairs of 16-bit integers. Re-included once per target.
// Called by: kernels/latent_int8.cc. Thread-safety: pure functions on a task's scratch.

// clang-format off
#if defined(MLA_KERNELS_INT8_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLA_KERNELS_INT8_PRODUCTS_INL_H_
#undef MLA_KERNELS_INT8_PRODUCTS_INL_H_
#else
#define MLA_KERNELS_INT8_PRODUCTS_INL_H_
#endif
// clang-format on

#include <algorithm>

#include <hwy/highway.h>

#include "kernels/int8_pairs-inl.h"
#include "kernels/latent.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

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
    // No pointers where only the size is asked for.
    const auto take = [&](int64_t n) {
      float* const at = task.scratch == nullptr ? nullptr : task.scratch + floats;
      floats += (n + 15) / 16 * 16;
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
  int64_t floats = 0;
};

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
inline void RopeScores(const LatentTask& task, const Int8Layout& l, const LatentTileRows& tile,
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

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#endif  // include guard toggled per target
