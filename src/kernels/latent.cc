#include "kernels/latent.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/attend.h"
#include "kernels/latent_int8.h"
#include "kernels/latent_unit.h"

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
inline constexpr int kTwoGroupRows = 6;
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
    const auto take = [&](int64_t count) {
      float* at = task.scratch != nullptr ? task.scratch + floats : nullptr;
      floats += count;
      return at;
    };
    q = take(all * width * lanes);
    scores = take(all * kLatentRunRows * lanes);
    max = take(all * lanes);
    sum = take(all * lanes);
    shrink = take(all * lanes);
    acc = take(task.rows * task.heads * rank);
    piece = take(kPieceFloats);
    partial = take(dot_rest ? task.rows * RoundUp(rest, 4) * kLatentRunRows * lanes : 0);
  }

  float* Q(int64_t row, int64_t group) const { return q + (row * groups + group) * width * lanes; }
  float* Scores(int64_t row, int64_t group) const {
    return scores + (row * groups + group) * kLatentRunRows * lanes;
  }
  // Partial sums of the remaining heads of one row: [heads rounded up to
  // 4][kLatentRunRows][lanes].
  float* Partial(int64_t row) const {
    return partial + row * RoundUp(rest, 4) * kLatentRunRows * lanes;
  }

  int64_t lanes;
  int64_t rank, width;  // of packed rows: padded to whole pairs of vectors
  int64_t full, rest;   // whole groups per query row, and heads beyond them
  int64_t groups;       // per query row
  bool dot_rest;        // the heads beyond have lanes along the row instead
  float* q;             // [rows, groups, width, lanes]; with dot_rest the last [rest, width]
  float* scores;        // [rows, groups, kLatentRunRows, lanes]
  float *max, *sum;     // [rows, groups, lanes], max in log2 units
  float* shrink;        // [rows, groups, lanes]
  float* acc;           // [rows, heads, rank]
  float* piece;         // fp32 copies of parts of rows
  float* partial;
  int64_t floats = 0;  // all of the above
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
template <int TR, int G, class Feeder>
HWY_INLINE void ScoreTile(const float* HWY_RESTRICT piece, int64_t panels,
                          const float* HWY_RESTRICT q, int64_t q_group, float* HWY_RESTRICT scores,
                          int64_t score_group, bool fresh, Prefetcher& prefetcher, Feeder& feed) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VF acc[TR][G];
  for (int i = 0; i < TR; ++i) {
    for (int g = 0; g < G; ++g) {
      acc[i][g] = fresh ? hn::Zero(d) : hn::LoadU(d, scores + g * score_group + i * lanes);
    }
  }
  // Two columns per step, or one where a vector has no more.
  const int64_t step = lanes == 1 || kOneGroupRows < 16 ? 1 : 2;
  for (int64_t panel = 0; panel < panels; ++panel) {
    prefetcher.Next();
    for (int64_t x = 0; x < lanes; x += step) {
      feed.Step();
      for (int64_t y = x; y < x + step; ++y) {
        VF qv[G];
        for (int g = 0; g < G; ++g) qv[g] = InRegister(hn::LoadU(d, q + g * q_group + y * lanes));
        for (int i = 0; i < TR; ++i) {
          const VF k = hn::Set(d, piece[i * lanes + y]);
          for (int g = 0; g < G; ++g) acc[i][g] = hn::MulAdd(k, qv[g], acc[i][g]);
        }
      }
    }
    piece += kPanelRows * lanes;
    q += lanes * lanes;
  }
  for (int i = 0; i < TR; ++i) {
    for (int g = 0; g < G; ++g) hn::StoreU(acc[i][g], d, scores + g * score_group + i * lanes);
  }
}

// Columns of the packed rows that are widened together: whole pairs of vectors of c_kv or k_rope.
struct Piece {
  Elem type;
  const char* data;  // of the tile's first row
  int64_t width;     // columns of the part
  int64_t column;    // first one, within the part
  int64_t packed;    // the same within the packed row
  int64_t panels;
};

// The piece at packed column `column`.
HWY_INLINE Piece PieceAt(const LatentTask& task, const Layout& l, const LatentTileRows& tile,
                         int64_t column) {
  const LatentFormat& f = task.format;
  const char* data = static_cast<const char*>(tile.data);
  const bool rope = column >= l.rank;
  const int64_t end =
      std::min(column + std::max(kPieceColumns, 2 * l.lanes), rope ? l.width : l.rank);
  const int64_t panels = (end - column) / l.lanes;
  if (rope) return {f.rope_type, data + f.rope_offset, f.rope, column - l.rank, column, panels};
  return {f.type, data, f.rank, column, column, panels};
}

// G groups from `group` on of one query row against `rows` rows of the piece. feeds(i) is what the
// block of TR rows from row i on does meanwhile.
template <int TR, int G, class Feeds>
HWY_INLINE void ScoreGroups(const Layout& l, int64_t query, int64_t group, const Piece& piece,
                            const float* widened, int64_t rows, Prefetcher& prefetcher,
                            const Feeds& feeds) {
  const float* q = l.Q(query, group) + piece.packed * l.lanes;
  float* s = l.Scores(query, group);
  ForEachRowBlock<TR>(rows, [&](auto count, int64_t i) {
    const auto run = [&](auto feed) {
      ScoreTile<count(), G>(widened + i * l.lanes, piece.panels, q, l.width * l.lanes,
                            s + i * l.lanes, kLatentRunRows * l.lanes, piece.packed == 0,
                            prefetcher, feed);
      feed.Drain();
    };
    if constexpr (count() == TR) {
      run(feeds(i));
    } else {
      run(NoFeed());
    }
  });
}

// The heads beyond the whole groups, four at a time, with lanes along the row: partial sums stay
// vectors until the row's last piece.
HWY_INLINE void ScoreRest(const Layout& l, int64_t query, const Piece& piece, const float* widened,
                          int64_t rows) {
  const DF d;
  constexpr int kHeads = 4;
  const bool last = piece.packed + piece.panels * l.lanes == l.width;
  for (int64_t head = 0; head < l.rest; head += kHeads) {
    const float* q = l.Q(query, l.full) + head * l.width + piece.packed;
    float* partial = l.Partial(query) + head * kLatentRunRows * l.lanes;
    ForEachRowBlock<4>(rows, [&](auto count, int64_t row) {
      constexpr int kCount = count();
      VF acc[kHeads][kCount];
      for (int h = 0; h < kHeads; ++h) {
        for (int i = 0; i < kCount; ++i) {
          acc[h][i] = piece.packed == 0
                          ? hn::Zero(d)
                          : hn::LoadU(d, partial + (h * kLatentRunRows + row + i) * l.lanes);
        }
      }
      for (int64_t panel = 0; panel < piece.panels; ++panel) {
        VF k[kCount];
        for (int i = 0; i < kCount; ++i) {
          k[i] = hn::LoadU(d, widened + (panel * kPanelRows + row + i) * l.lanes);
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
          hn::StoreU(acc[h][i], d, partial + (h * kLatentRunRows + row + i) * l.lanes);
        }
      }
    });
  }
}

// How many of the tile's rows query row i sees.
HWY_INLINE int64_t Seen(const LatentTileRows& tile, int64_t query) {
  return std::clamp<int64_t>(tile.visible + query, 0, tile.count);
}

// All heads of all query rows against one piece. The first groups also run `feeds`, which they must
// see the whole tile for.
template <class Feeds>
void ScorePiece(const LatentTask& task, const Layout& l, const LatentTileRows& tile,
                const Piece& piece, const float* widened, Prefetcher& prefetcher,
                const Feeds& feeds) {
  const auto no_feeds = [](int64_t) { return NoFeed(); };
  const int64_t whole = l.dot_rest ? l.full : l.groups;
  for (int64_t query = 0; query < task.rows; ++query) {
    const int64_t seen = Seen(tile, query);
    if (seen == 0) continue;
    int64_t group = 0;
    if (query == 0 && whole >= 2) {
      ScoreGroups<kTwoGroupRows, 2>(l, 0, 0, piece, widened, seen, prefetcher, feeds);
      group = 2;
    } else if (query == 0 && whole == 1) {
      ScoreGroups<kOneGroupRows, 1>(l, 0, 0, piece, widened, seen, prefetcher, feeds);
      group = 1;
    }
    for (; group + 2 <= whole; group += 2) {
      ScoreGroups<kTwoGroupRows, 2>(l, query, group, piece, widened, seen, prefetcher, no_feeds);
    }
    if (group < whole) {
      ScoreGroups<kOneGroupRows, 1>(l, query, group, piece, widened, seen, prefetcher, no_feeds);
    }
    if (l.dot_rest) ScoreRest(l, query, piece, widened, seen);
  }
}

void WidenPiece(const LatentTask& task, const Piece& piece, int64_t rows, float* to) {
  Widen(piece.type, piece.data, task.format.row_bytes, rows, piece.width, piece.column,
        piece.panels, to);
}

void Scores(const LatentTask& task, const Layout& l, const LatentTileRows& tile, int64_t most) {
  const LatentFormat& f = task.format;
  const int64_t calls = std::max<int64_t>(1, most / kOneGroupRows) * (l.width / l.lanes) *
                        task.rows * std::max<int64_t>(1, l.full);
  Prefetcher prefetcher(tile.next, tile.next_count * f.row_bytes, calls);
  const auto no_feeds = [](int64_t) { return NoFeed(); };
  const bool may_feed =
      kOneGroupRows == 16 && Seen(tile, 0) == kLatentRunRows && (l.full > 0 || !l.dot_rest);
  Piece piece = PieceAt(task, l, tile, 0);
  float* now = l.piece;
  float* later = l.piece + kPieceFloats / 2;
  WidenPiece(task, piece, most, now);
  while (piece.packed + piece.panels * l.lanes < l.width) {
    const Piece next = PieceAt(task, l, tile, piece.packed + piece.panels * l.lanes);
    // Not for a last pair that the row does not fill.
    if (may_feed && next.column + next.panels * l.lanes <= next.width) {
      const int64_t block =
          l.full + (l.dot_rest ? 0 : l.rest > 0) >= 2 ? kTwoGroupRows : kOneGroupRows;
      WithElem(next.type, next.data, [&](const auto* typed) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
        ScorePiece(task, l, tile, piece, now, prefetcher, [&](int64_t row) {
          // Half a tile from the rows in use, so that no load shares the low 12 bits of its address
          // with a store under way.
          const int64_t to = (row + kLatentRunRows / 2) % kLatentRunRows;
          return Feed<T>(next.data + to * f.row_bytes, f.row_bytes, block, next.column,
                         next.panels / 2, later + to * l.lanes);
        });
      });
    } else {
      ScorePiece(task, l, tile, piece, now, prefetcher, no_feeds);
      WidenPiece(task, next, most, later);
    }
    piece = next;
    std::swap(now, later);
  }
  ScorePiece(task, l, tile, piece, now, prefetcher, no_feeds);
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

// Where OutputTile takes its NV vectors of columns of a row from. Widened: a piece.
struct FromPiece {
  template <int NV>
  HWY_INLINE void Load(int64_t row, VF (&v)[NV]) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(DF()));
    for (int j = 0; j < NV; ++j) {
      v[j] = InRegister(hn::LoadU(DF(), piece + (j * kPanelRows + row) * lanes));
    }
  }
  const float* piece;
};
// Stored rows, one pair of vectors, which are left in the piece for the heads that follow: the
// multiply-adds hide the stores.
template <class T>
struct FromRows {
  HWY_INLINE void Load(int64_t row, VF (&v)[2]) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(DF()));
    UnpackPair(reinterpret_cast<const T*>(data + row * row_bytes), v[0], v[1]);
    hn::StoreU(v[0], DF(), piece + row * lanes);
    hn::StoreU(v[1], DF(), piece + (kPanelRows + row) * lanes);
  }
  const char* data;
  int64_t row_bytes;
  float* piece;
};

// Heads of one query row and the columns of their state that a tile updates.
struct OutputBlock {
  int64_t query, head;
  int64_t rows;       // of the tile, that the query sees
  float* acc;         // of the first head and vector of columns
  int64_t acc_panel;  // from one vector of columns to the next
};

// NV vectors of columns of acc, for MR heads: acc = acc·shrink + p·rows.
template <int MR, int NV, class From>
HWY_INLINE void OutputTile(const Layout& l, const OutputBlock& b, const From& from) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* p = l.Scores(b.query, b.head / lanes) + b.head % lanes;
  const float* shrink = l.shrink + b.query * l.groups * lanes + b.head;
  VF c[MR][NV];
  for (int i = 0; i < MR; ++i) {
    const VF factor = hn::Set(d, shrink[i]);
    for (int j = 0; j < NV; ++j) {
      c[i][j] = hn::Mul(hn::LoadU(d, b.acc + i * lanes + j * b.acc_panel), factor);
    }
  }
  // Heads of one block belong to several groups where vectors are short.
  const float* weight[MR];
  for (int i = 0; i < MR; ++i) {
    weight[i] = p + i + (b.head % lanes + i) / lanes * (kLatentRunRows * lanes - lanes);
  }
  for (int64_t row = 0; row < b.rows; ++row) {
    VF v[NV];
    from.Load(row, v);
    for (int i = 0; i < MR; ++i) {
      const VF w = InRegister(hn::Set(d, weight[i][row * lanes]));
      for (int j = 0; j < NV; ++j) c[i][j] = hn::MulAdd(w, v[j], c[i][j]);
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NV; ++j) hn::StoreU(c[i][j], d, b.acc + i * lanes + j * b.acc_panel);
  }
}

// The same for `panels` vectors of columns that lie widened in l.piece.
template <int MR>
HWY_INLINE void OutputPanels(const Layout& l, const OutputBlock& block, int64_t panels) {
  const auto tile = [&](auto count, int64_t x) {
    OutputBlock b = block;
    b.acc += x * b.acc_panel;
    OutputTile<MR, count()>(l, b, FromPiece{l.piece + x * kPanelRows * l.lanes});
  };
  int64_t x = 0;
  for (; x + kColumns <= panels; x += kColumns) tile(std::integral_constant<int, kColumns>(), x);
  for (; x + 2 <= panels; x += 2) tile(std::integral_constant<int, 2>(), x);
  for (; x < panels; ++x) tile(std::integral_constant<int, 1>(), x);
}

template <class T>
void OutputOf(const LatentTask& task, const Layout& l, const LatentTileRows& tile, int64_t most) {
  const LatentFormat& f = task.format;
  const char* data = static_cast<const char*>(tile.data);
  const int64_t acc_panel = task.rows * task.heads * l.lanes;
  for (int64_t column = 0; column < l.rank; column += kOutputPanels * l.lanes) {
    const int64_t panels = std::min(kOutputPanels, (l.rank - column) / l.lanes);
    float* acc = l.acc + column / l.lanes * acc_panel;
    int64_t first_head = 0;
    if (Seen(tile, 0) == most && task.heads >= kRows && task.rows * task.heads <= 32 &&
        column + panels * l.lanes <= f.rank) {
      for (int64_t x = 0; x < panels; x += 2) {
        OutputTile<kRows, 2>(
            l, {0, 0, most, acc + x * acc_panel, acc_panel},
            FromRows<T>{data + (column + x * l.lanes) * static_cast<int64_t>(sizeof(T)),
                        f.row_bytes, l.piece + x * kPanelRows * l.lanes});
      }
      first_head = kRows;
    } else {
      WidenRows<T>(data, f.row_bytes, most, f.rank, column, panels, l.piece);
    }
    for (int64_t query = 0; query < task.rows; ++query) {
      const int64_t seen = Seen(tile, query);
      const int64_t first = query == 0 ? first_head : 0;
      if (seen == 0) continue;
      ForEachRowBlock(task.heads - first, [&](auto heads, int64_t i) {
        const int64_t head = first + i;
        float* at = acc + (query * task.heads + head) * l.lanes;
        OutputPanels<heads()>(l, {query, head, seen, at, acc_panel}, panels);
      });
    }
  }
}

void Output(const LatentTask& task, const Layout& l, const LatentTileRows& tile, int64_t most) {
  WithElem(task.format.type, tile.data, [&](const auto* typed) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    OutputOf<T>(task, l, tile, most);
  });
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
  return Layout(task).floats;
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

void LatentBegin(const LatentTask& task) noexcept {
  if (task.format.type == Elem::kInt8) return LatentInt8Begin(task);
  if (const auto* products = LatentProducts(task.format)) return LatentBf16Begin(task, *products);
  HWY_DYNAMIC_DISPATCH(Begin)(task);
}
void LatentTile(const LatentTask& task, const LatentTileRows& tile) noexcept {
  if (const auto* products = LatentProducts(task.format)) {
    return LatentBf16Tile(task, tile, *products);
  }
  ForEachLatentRun(task.format, tile, [&](const LatentTileRows& run) {
    if (task.format.type == Elem::kInt8) {
      LatentInt8Tile(task, run);
    } else {
      HWY_DYNAMIC_DISPATCH(Tile)(task, run);
    }
  });
}
void LatentFinish(const LatentTask& task) noexcept {
  if (task.format.type == Elem::kInt8) return LatentInt8Finish(task);
  if (const auto* products = LatentProducts(task.format)) return LatentBf16Finish(task, *products);
  HWY_DYNAMIC_DISPATCH(Finish)(task);
}
int64_t LatentScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) noexcept {
  if (format.type == Elem::kInt8) return LatentInt8ScratchFloats(format, rows, heads);
  // Enough for either family, so that it does not depend on the one in use.
  return std::max(HWY_DYNAMIC_DISPATCH(ScratchFloats)(format, rows, heads),
                  LatentBf16ScratchFloats(format, rows, heads));
}

}  // namespace mla
#endif  // HWY_ONCE
