// Where the parts of a latent task's scratch lie, and the scores of one run of rows. Re-included
// once per target.
// Called by: kernels/latent.cc. Thread-safety: pure functions on a task's scratch.

// clang-format off
#if defined(MLA_KERNELS_LATENT_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLA_KERNELS_LATENT_SCORES_INL_H_
#undef MLA_KERNELS_LATENT_SCORES_INL_H_
#else
#define MLA_KERNELS_LATENT_SCORES_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <type_traits>
#include <utility>

#include <hwy/highway.h>

#include "kernels/latent.h"
#include "kernels/latent_rows-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

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

inline void WidenPiece(const LatentTask& task, const Piece& piece, int64_t rows, float* to) {
  Widen(piece.type, piece.data, task.format.row_bytes, rows, piece.width, piece.column,
        piece.panels, to);
}

inline void Scores(const LatentTask& task, const Layout& l, const LatentTileRows& tile,
                   int64_t most) {
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

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#endif  // include guard toggled per target
