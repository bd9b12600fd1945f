// The output of one run of latent rows. Re-included once per target.
// Called by: kernels/latent.cc. Thread-safety: pure functions on a task's scratch.

// clang-format off
#if defined(MLA_KERNELS_LATENT_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLA_KERNELS_LATENT_OUTPUT_INL_H_
#undef MLA_KERNELS_LATENT_OUTPUT_INL_H_
#else
#define MLA_KERNELS_LATENT_OUTPUT_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <type_traits>

#include <hwy/highway.h>

#include "kernels/latent.h"
#include "kernels/latent_rows-inl.h"
#include "kernels/latent_scores-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

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

inline void Output(const LatentTask& task, const Layout& l, const LatentTileRows& tile,
                   int64_t most) {
  WithElem(task.format.type, tile.data, [&](const auto* typed) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    OutputOf<T>(task, l, tile, most);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#endif  // include guard toggled per target
