#include "kernels/latent.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/latent.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "kernels/exp2-inl.h"
#include "kernels/latent_rows-inl.h"
#include "kernels/tile-inl.h"

// The schedule (docs/kernels/latent_fma.md has the arithmetic behind it): query heads are the lanes
// of the scores, so a score is a chain of multiply-adds without a horizontal step; columns of c_kv
// are the lanes of the output. Rows become fp32 in pieces that stay in the L1 cache. Every score
// and every output element is one chain in a fixed order, whatever the blocking around it.

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Register tiles of the scores: TR rows x G groups of heads. With one group each row's broadcast
// serves one multiply-add, with two it serves two.
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || \
    HWY_TARGET == HWY_EMU128
inline constexpr int kOneGroupRows = 8;
inline constexpr int kTwoGroupRows = 4;
#else
inline constexpr int kOneGroupRows = 16;
inline constexpr int kTwoGroupRows = 8;
#endif

// Where the parts of a task's scratch lie. A group is one vector of heads of one query row.
struct Layout {
  explicit Layout(const LatentTask& task)
      : lanes(static_cast<int64_t>(hn::Lanes(DF()))),
        rank(RoundUp(task.format.rank, 2 * lanes)),
        width(rank + RoundUp(task.format.rope, 2 * lanes)),
        full(task.heads / lanes),
        rest(task.heads % lanes),
        groups(full + (rest > 0 ? 1 : 0)),
        dot_rest(rest > 0 && RoundUp(rest, 4) < lanes) {
    const int64_t all = task.rows * groups;
    q = task.scratch;
    scores = q + all * width * lanes;
    max = scores + all * kLatentTileRows * lanes;
    sum = max + all * lanes;
    shrink = sum + all * lanes;
    acc = shrink + all * lanes;
    piece = acc + RoundUp(task.rows * task.heads, 1) * rank;
    partial = piece + kPieceFloats;
  }

  float* Q(int64_t row, int64_t group) const { return q + (row * groups + group) * width * lanes; }
  float* Scores(int64_t row, int64_t group) const {
    return scores + (row * groups + group) * kLatentTileRows * lanes;
  }
  // Partial sums of the remaining heads of one row: [heads rounded up to
  // 4][kLatentTileRows][lanes].
  float* Partial(int64_t row) const { return partial + row * lanes * kLatentTileRows * lanes; }

  int64_t lanes;
  int64_t rank, width;  // of packed rows: padded to whole pairs of vectors
  int64_t full, rest;   // whole groups per query row, and heads beyond them
  int64_t groups;       // per query row
  bool dot_rest;        // the heads beyond have lanes along the row instead
  float* q;             // [rows, groups, width, lanes]; with dot_rest the last [rest, width]
  float* scores;        // [rows, groups, kLatentTileRows, lanes]
  float *max, *sum;     // [rows, groups, lanes], max in log2 units
  float* shrink;        // [rows, groups, lanes]
  float* acc;           // [rows, heads, rank]
  float* piece;         // fp32 copies of parts of rows
  float* partial;
};

void Begin(const LatentTask& task) {
  const Layout l(task);
  const int64_t all = task.rows * l.groups;
  std::fill(l.q, l.q + all * l.width * l.lanes, 0.0f);
  std::fill(l.max, l.max + all * l.lanes, kNone);
  std::fill(l.sum, l.sum + all * l.lanes, 0.0f);
  std::fill(l.acc, l.acc + task.rows * task.heads * l.rank, 0.0f);
  const LatentFormat& f = task.format;
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t head = 0; head < task.heads; ++head) {
      const float* from = task.q + row * task.q_row_stride + head * task.q_head_stride;
      const int64_t group = head / l.lanes;
      const bool dot = l.dot_rest && group == l.full;
      float* to = l.Q(row, group) + (head % l.lanes) * (dot ? l.width : 1);
      const int64_t step = dot ? 1 : l.lanes;
      // Scores in log2 units from here on.
      ForEachPackedColumn(f.type, f.rank,
                          [&](int64_t x, int64_t packed) { to[packed * step] = from[x] * kLog2E; });
      to += l.rank * step;
      from += f.rank;
      ForEachPackedColumn(f.rope_type, f.rope,
                          [&](int64_t x, int64_t packed) { to[packed * step] = from[x] * kLog2E; });
    }
  }
}

// scores[i][group] += the products of `panels` vectors of columns, for TR rows and G groups.
template <int TR, int G>
HWY_INLINE void ScoreTile(const float* HWY_RESTRICT piece, int64_t panels,
                          const float* HWY_RESTRICT q, int64_t q_group, float* HWY_RESTRICT scores,
                          int64_t score_group, bool fresh, Prefetcher& prefetcher) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VF acc[TR][G];
  for (int i = 0; i < TR; ++i) {
    for (int g = 0; g < G; ++g) {
      acc[i][g] = fresh ? hn::Zero(d) : hn::LoadU(d, scores + g * score_group + i * lanes);
    }
  }
  for (int64_t panel = 0; panel < panels; ++panel) {
    prefetcher.Next();
    for (int64_t x = 0; x < lanes; ++x) {
      VF qv[G];
      for (int g = 0; g < G; ++g) qv[g] = InRegister(hn::LoadU(d, q + g * q_group + x * lanes));
      for (int i = 0; i < TR; ++i) {
        const VF k = hn::Set(d, piece[i * lanes + x]);
        for (int g = 0; g < G; ++g) acc[i][g] = hn::MulAdd(k, qv[g], acc[i][g]);
      }
    }
    piece += kPanelRows * lanes;
    q += lanes * lanes;
  }
  for (int i = 0; i < TR; ++i) {
    for (int g = 0; g < G; ++g) hn::StoreU(acc[i][g], d, scores + g * score_group + i * lanes);
  }
}

// G groups from `group` on of one query row against `rows` rows of the piece.
template <int TR, int G>
HWY_INLINE void ScoreGroups(const Layout& l, int64_t query, int64_t group, int64_t first_column,
                            int64_t panels, int64_t rows, Prefetcher& prefetcher) {
  const float* q = l.Q(query, group) + first_column * l.lanes;
  float* s = l.Scores(query, group);
  ForEachRowBlock<TR>(rows, [&](auto count, int64_t i) {
    ScoreTile<count(), G>(l.piece + i * l.lanes, panels, q, l.width * l.lanes, s + i * l.lanes,
                          kLatentTileRows * l.lanes, first_column == 0, prefetcher);
  });
}

// The heads beyond the whole groups, four at a time, with lanes along the row: partial sums stay
// vectors until the row's last piece.
HWY_INLINE void ScoreRest(const Layout& l, int64_t query, int64_t first_column, int64_t panels,
                          int64_t rows) {
  const DF d;
  constexpr int kHeads = 4;
  const bool last = first_column + panels * l.lanes == l.width;
  for (int64_t head = 0; head < l.rest; head += kHeads) {
    const float* q = l.Q(query, l.full) + head * l.width + first_column;
    float* partial = l.Partial(query) + head * kLatentTileRows * l.lanes;
    ForEachRowBlock<4>(rows, [&](auto count, int64_t row) {
      constexpr int kCount = count();
      VF acc[kHeads][kCount];
      for (int h = 0; h < kHeads; ++h) {
        for (int i = 0; i < kCount; ++i) {
          acc[h][i] = first_column == 0
                          ? hn::Zero(d)
                          : hn::LoadU(d, partial + (h * kLatentTileRows + row + i) * l.lanes);
        }
      }
      for (int64_t panel = 0; panel < panels; ++panel) {
        VF k[kCount];
        for (int i = 0; i < kCount; ++i) {
          k[i] = hn::LoadU(d, l.piece + (panel * kPanelRows + row + i) * l.lanes);
        }
        for (int h = 0; h < kHeads; ++h) {
          const VF qv = InRegister(hn::LoadU(d, q + h * l.width + panel * l.lanes));
          for (int i = 0; i < kCount; ++i) acc[h][i] = hn::MulAdd(qv, k[i], acc[h][i]);
        }
      }
      for (int i = 0; i < kCount; ++i) {
        if (last) {
          // Sum4 writes the four heads side by side.
          Sum4(d, acc[0][i], acc[1][i], acc[2][i], acc[3][i],
               l.Scores(query, l.full) + (row + i) * l.lanes + head);
          continue;
        }
        for (int h = 0; h < kHeads; ++h) {
          hn::StoreU(acc[h][i], d, partial + (h * kLatentTileRows + row + i) * l.lanes);
        }
      }
    });
  }
}

// How many of the tile's rows query row i sees.
HWY_INLINE int64_t Seen(const LatentTileRows& tile, int64_t query) {
  return std::clamp<int64_t>(tile.visible + query, 0, tile.count);
}

void Scores(const LatentTask& task, const Layout& l, const LatentTileRows& tile, int64_t most) {
  const LatentFormat& f = task.format;
  const char* data = static_cast<const char*>(tile.data);
  const int64_t calls = std::max<int64_t>(1, most / kOneGroupRows) * (l.width / l.lanes) *
                        task.rows * std::max<int64_t>(1, l.full);
  Prefetcher prefetcher(tile.next, tile.next_count * f.row_bytes, calls);
  for (int64_t column = 0; column < l.width;) {
    const bool rope = column >= l.rank;
    const int64_t end = std::min(column + kPieceColumns, rope ? l.width : l.rank);
    const int64_t panels = (end - column) / l.lanes;
    if (rope) {
      Widen(f.rope_type, data + f.rope_offset, f.row_bytes, most, f.rope, column - l.rank, panels,
            l.piece);
    } else {
      Widen(f.type, data, f.row_bytes, most, f.rank, column, panels, l.piece);
    }
    for (int64_t query = 0; query < task.rows; ++query) {
      const int64_t seen = Seen(tile, query);
      if (seen == 0) continue;
      const int64_t whole = l.dot_rest ? l.full : l.groups;
      int64_t group = 0;
      for (; group + 2 <= whole; group += 2) {
        ScoreGroups<kTwoGroupRows, 2>(l, query, group, column, panels, seen, prefetcher);
      }
      if (group < whole) {
        ScoreGroups<kOneGroupRows, 1>(l, query, group, column, panels, seen, prefetcher);
      }
      if (l.dot_rest) ScoreRest(l, query, column, panels, seen);
    }
    column = end;
  }
}

// Scores to weights, for one group of heads; the state's max and sum, and the factor by which what
// was there before shrinks.
void SoftmaxGroup(const Layout& l, int64_t query, int64_t group, int64_t seen) {
  const DF d;
  float* s = l.Scores(query, group);
  const int64_t at = (query * l.groups + group) * l.lanes;
  VF best = hn::Set(d, kNone);
  for (int64_t i = 0; i < seen; ++i) best = hn::Max(best, hn::LoadU(d, s + i * l.lanes));
  const VF old = hn::LoadU(d, l.max + at);
  const VF max = hn::Max(old, best);
  // With only -inf so far the weights must come out as 0, not as exp(-inf + inf).
  const VF shift = hn::IfThenElse(hn::Eq(max, hn::Set(d, kNone)), hn::Zero(d), max);
  VF sum = hn::Zero(d);
  for (int64_t i = 0; i < seen; ++i) {
    const VF p = Exp2NotAboveZero(d, hn::Sub(hn::LoadU(d, s + i * l.lanes), shift));
    hn::StoreU(p, d, s + i * l.lanes);
    sum = hn::Add(sum, p);
  }
  const VF shrink = Exp2NotAboveZero(d, hn::Sub(old, shift));
  hn::StoreU(hn::MulAdd(hn::LoadU(d, l.sum + at), shrink, sum), d, l.sum + at);
  hn::StoreU(max, d, l.max + at);
  hn::StoreU(shrink, d, l.shrink + at);
}

// NV vectors of columns of acc, for MR heads from `head` on: acc = acc·shrink + p·piece.
template <int MR, int NV>
HWY_INLINE void OutputTile(const Layout& l, int64_t query, int64_t head, int64_t rows,
                           const float* HWY_RESTRICT v, float* HWY_RESTRICT acc,
                           int64_t acc_panel) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* p = l.Scores(query, head / lanes) + head % lanes;
  const float* shrink = l.shrink + (query * l.groups + head / lanes) * lanes + head % lanes;
  VF c[MR][NV];
  for (int i = 0; i < MR; ++i) {
    const VF factor = hn::Set(d, shrink[i]);
    for (int j = 0; j < NV; ++j) {
      c[i][j] = hn::Mul(hn::LoadU(d, acc + i * lanes + j * acc_panel), factor);
    }
  }
  // Heads of one block belong to several groups where vectors are short.
  const float* weight[MR];
  for (int i = 0; i < MR; ++i) {
    weight[i] = p + i + (head % lanes + i) / lanes * (kLatentTileRows * lanes - lanes);
  }
  for (int64_t row = 0; row < rows; ++row) {
    VF vv[NV];
    for (int j = 0; j < NV; ++j) {
      vv[j] = InRegister(hn::LoadU(d, v + (j * kPanelRows + row) * lanes));
    }
    for (int i = 0; i < MR; ++i) {
      const VF w = InRegister(hn::Set(d, weight[i][row * lanes]));
      for (int j = 0; j < NV; ++j) c[i][j] = hn::MulAdd(w, vv[j], c[i][j]);
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NV; ++j) hn::StoreU(c[i][j], d, acc + i * lanes + j * acc_panel);
  }
}

void Output(const LatentTask& task, const Layout& l, const LatentTileRows& tile, int64_t most) {
  const LatentFormat& f = task.format;
  const int64_t acc_panel = task.rows * task.heads * l.lanes;
  const int64_t all = l.rank / l.lanes;
  for (int64_t panel = 0; panel < all; panel += kOutputPanels) {
    const int64_t panels = std::min(kOutputPanels, all - panel);
    Widen(f.type, static_cast<const char*>(tile.data), f.row_bytes, most, f.rank, panel * l.lanes,
          panels, l.piece);
    for (int64_t query = 0; query < task.rows; ++query) {
      const int64_t seen = Seen(tile, query);
      if (seen == 0) continue;
      float* acc = l.acc + panel * acc_panel + query * task.heads * l.lanes;
      ForEachRowBlock(task.heads, [&](auto heads, int64_t head) {
        float* at = acc + head * l.lanes;
        const float* v = l.piece;
        int64_t x = 0;
        for (; x + kColumns <= panels; x += kColumns) {
          OutputTile<heads(), kColumns>(l, query, head, seen, v + x * kPanelRows * l.lanes,
                                        at + x * acc_panel, acc_panel);
        }
        for (; x + 2 <= panels; x += 2) {
          OutputTile<heads(), 2>(l, query, head, seen, v + x * kPanelRows * l.lanes,
                                 at + x * acc_panel, acc_panel);
        }
        for (; x < panels; ++x) {
          OutputTile<heads(), 1>(l, query, head, seen, v + x * kPanelRows * l.lanes,
                                 at + x * acc_panel, acc_panel);
        }
      });
    }
  }
}

void Tile(const LatentTask& task, const LatentTileRows& tile) {
  const Layout l(task);
  const int64_t most = Seen(tile, task.rows - 1);
  if (most == 0) return;
  Scores(task, l, tile, most);
  for (int64_t query = 0; query < task.rows; ++query) {
    const int64_t seen = Seen(tile, query);
    if (seen == 0) continue;
    for (int64_t group = 0; group < l.groups; ++group) SoftmaxGroup(l, query, group, seen);
  }
  Output(task, l, tile, most);
}

void Finish(const LatentTask& task) {
  const Layout l(task);
  const LatentFormat& f = task.format;
  for (int64_t query = 0; query < task.rows; ++query) {
    for (int64_t head = 0; head < task.heads; ++head) {
      const int64_t at = (query * l.groups + head / l.lanes) * l.lanes + head % l.lanes;
      // The sum is 0 only for a row that saw no key; NaN must stay visible.
      const bool saw = !(l.sum[at] == 0.0f);
      const float inverse = saw ? 1.0f / l.sum[at] : 0.0f;
      const int64_t acc_panel = task.rows * task.heads * l.lanes;
      const float* acc = l.acc + (query * task.heads + head) * l.lanes;
      float* out = task.out + query * task.out_row_stride + head * task.out_head_stride;
      ForEachPackedColumn(f.type, f.rank, [&](int64_t x, int64_t packed) {
        out[x] = acc[packed / l.lanes * acc_panel + packed % l.lanes] * inverse;
      });
      if (task.lse != nullptr) {
        task.lse[query * task.lse_row_stride + head] =
            saw ? std::log2(l.sum[at]) + l.max[at] : kNone;
      }
    }
  }
}

int64_t ScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) {
  LatentTask task;
  task.format = format;
  task.rows = rows;
  task.heads = heads;
  const Layout l(task);
  return l.partial - l.q + rows * l.lanes * kLatentTileRows * l.lanes;
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {

HWY_EXPORT(Begin);
HWY_EXPORT(Tile);
HWY_EXPORT(Finish);
HWY_EXPORT(ScratchFloats);

void LatentBegin(const LatentTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Begin)(task); }
void LatentTile(const LatentTask& task, const LatentTileRows& tile) noexcept {
  HWY_DYNAMIC_DISPATCH(Tile)(task, tile);
}
void LatentFinish(const LatentTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Finish)(task); }
int64_t LatentScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) noexcept {
  return HWY_DYNAMIC_DISPATCH(ScratchFloats)(format, rows, heads);
}

}  // namespace mla
#endif  // HWY_ONCE
