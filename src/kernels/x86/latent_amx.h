// The products of bf16 pairs on AMX tiles, as templates of the tile instructions.
// Called by: latent_amx.cc with the real instructions, tests with a model of the tiles.
// Thread-safety: tiles belong to the calling thread, from Begin to End.
#ifndef MLA_KERNELS_X86_LATENT_AMX_H_
#define MLA_KERNELS_X86_LATENT_AMX_H_

#include "kernels/x86/amx_tiles.h"
#include "kernels/x86/latent_bf16.h"

namespace mla {

/// Tiles: 0 to 3 sums, 4 and 5 first operands, 6 and 7 second ones; all are 16 rows of 64 bytes,
/// unless `rest` heads are beyond whole groups: then 2, 3 (sums) and 5 (weights) have `rest` rows
/// for these, so that they cost what they are. One configuration serves a whole task.
inline TileConfig LatentTileConfig(int64_t rest) {
  TileConfig config;
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    const bool of_rest = rest > 0 && (tile == 2 || tile == 3 || tile == 5);
    config.rows[tile] = static_cast<uint8_t>(of_rest ? rest : 16);
    config.row_bytes[tile] = 64;
  }
  return config;
}

/// Ops has static functions LoadConfig(const TileConfig&), Release() and, with the numbers of tiles
/// as template arguments, Zero<T>(), Load<T>(base, stride), Store<T>(base, stride) and
/// Dot<C, A, B>(): C[m][n] += the sum over k of A[m][2k]·B[k][2n] + A[m][2k + 1]·B[k][2n + 1].
template <class Ops>
class LatentAmx {
 public:
  static constexpr Bf16Products Products() { return {Begin, Scores, Output, Ops::Release}; }

 private:
  static constexpr int64_t kRowBytes = 64;
  static constexpr int64_t kTileFloats = 256;  // of a tile of 16 rows

  static void Begin(int64_t rest) { Ops::LoadConfig(LatentTileConfig(rest)); }

  // Cached rows of one block and step as first operand.
  template <int T>
  static void LoadRows(const Bf16Scores& w, int64_t block, int64_t step) {
    if (step < w.whole) {
      Ops::template Load<T>(w.block[block] + step * kRowBytes, w.row_bytes[block]);
    } else {
      Ops::template Load<T>(w.tail + block * kBf16Block * kRowBytes, kRowBytes);
    }
  }

  template <int T>
  static void StoreScores(const Bf16Scores& w, int64_t panel, int64_t block) {
    Ops::template Store<T>(w.scores + (panel * kLatentTileRows + block * kBf16Block) * kBf16Lanes,
                           kRowBytes);
  }

  static const float* Q(const Bf16Scores& w, int64_t panel, int64_t step) {
    return w.q + (panel * w.steps + step) * kTileFloats;
  }

  // Two blocks of rows by two panels: four chains hide the latency of a product.
  static void ScoreQuad(const Bf16Scores& w, int64_t panel, int64_t block) {
    Ops::template Zero<0>();
    Ops::template Zero<1>();
    Ops::template Zero<2>();
    Ops::template Zero<3>();
    for (int64_t step = 0; step < w.steps; ++step) {
      w.prefetch->Next();
      LoadRows<4>(w, block, step);
      Ops::template Load<6>(Q(w, panel, step), kRowBytes);
      Ops::template Dot<0, 4, 6>();
      Ops::template Load<7>(Q(w, panel + 1, step), kRowBytes);
      Ops::template Dot<1, 4, 7>();
      LoadRows<5>(w, block + 1, step);
      Ops::template Dot<2, 5, 6>();
      Ops::template Dot<3, 5, 7>();
    }
    StoreScores<0>(w, panel, block);
    StoreScores<1>(w, panel + 1, block);
    StoreScores<2>(w, panel, block + 1);
    StoreScores<3>(w, panel + 1, block + 1);
  }

  // One block by two panels, on the tiles that are whole in every configuration.
  static void ScorePair(const Bf16Scores& w, int64_t panel, int64_t block) {
    Ops::template Zero<0>();
    Ops::template Zero<1>();
    for (int64_t step = 0; step < w.steps; ++step) {
      w.prefetch->Next();
      LoadRows<4>(w, block, step);
      Ops::template Load<6>(Q(w, panel, step), kRowBytes);
      Ops::template Dot<0, 4, 6>();
      Ops::template Load<7>(Q(w, panel + 1, step), kRowBytes);
      Ops::template Dot<1, 4, 7>();
    }
    StoreScores<0>(w, panel, block);
    StoreScores<1>(w, panel + 1, block);
  }

  // One or two blocks by one panel, likewise.
  static void ScoreSingle(const Bf16Scores& w, int64_t panel, int64_t block, bool two) {
    Ops::template Zero<0>();
    Ops::template Zero<1>();
    for (int64_t step = 0; step < w.steps; ++step) {
      w.prefetch->Next();
      Ops::template Load<6>(Q(w, panel, step), kRowBytes);
      LoadRows<4>(w, block, step);
      Ops::template Dot<0, 4, 6>();
      if (!two) continue;
      LoadRows<4>(w, block + 1, step);
      Ops::template Dot<1, 4, 6>();
    }
    StoreScores<0>(w, panel, block);
    if (two) StoreScores<1>(w, panel, block + 1);
  }

  static void Scores(const Bf16Scores& w) {
    for (int64_t block = 0; block < w.blocks; block += 2) {
      const bool two = block + 1 < w.blocks;
      int64_t panel = 0;
      for (; panel + 2 <= w.panels; panel += 2) {
        if (two && !w.rest) {
          ScoreQuad(w, panel, block);
          continue;
        }
        ScorePair(w, panel, block);
        if (two) ScorePair(w, panel, block + 1);
      }
      if (panel < w.panels) ScoreSingle(w, panel, block, two);
    }
  }

  static const char* P(const Bf16Output& w, int64_t step) {
    return reinterpret_cast<const char*>(w.p) + step * kRowBytes;
  }
  static const float* Piece(const Bf16Output& w, int64_t step, int64_t column) {
    return w.piece + (step * kBf16PieceBlocks + column) * kTileFloats;
  }

  // Two blocks of columns, sums in tiles C and C + 1, weights in tile A.
  template <int C, int A>
  static void OutputTwo(const Bf16Output& w, int64_t column) {
    float* acc = w.acc + column * w.heads * kBf16Lanes;
    Ops::template Load<C>(acc, kRowBytes);
    Ops::template Load<C + 1>(acc + w.heads * kBf16Lanes, kRowBytes);
    for (int64_t step = 0; step * kBf16Depth < w.rows; ++step) {
      Ops::template Load<A>(P(w, step), 2 * kLatentTileRows);
      Ops::template Load<6>(Piece(w, step, column), kRowBytes);
      Ops::template Dot<C, A, 6>();
      Ops::template Load<7>(Piece(w, step, column + 1), kRowBytes);
      Ops::template Dot<C + 1, A, 7>();
    }
    Ops::template Store<C>(acc, kRowBytes);
    Ops::template Store<C + 1>(acc + w.heads * kBf16Lanes, kRowBytes);
  }

  static void OutputFour(const Bf16Output& w) {
    Ops::template Load<0>(w.acc, kRowBytes);
    Ops::template Load<1>(w.acc + kTileFloats, kRowBytes);
    Ops::template Load<2>(w.acc + 2 * kTileFloats, kRowBytes);
    Ops::template Load<3>(w.acc + 3 * kTileFloats, kRowBytes);
    for (int64_t step = 0; step * kBf16Depth < w.rows; ++step) {
      Ops::template Load<4>(P(w, step), 2 * kLatentTileRows);
      Ops::template Load<6>(Piece(w, step, 0), kRowBytes);
      Ops::template Dot<0, 4, 6>();
      Ops::template Load<7>(Piece(w, step, 1), kRowBytes);
      Ops::template Dot<1, 4, 7>();
      Ops::template Load<6>(Piece(w, step, 2), kRowBytes);
      Ops::template Dot<2, 4, 6>();
      Ops::template Load<7>(Piece(w, step, 3), kRowBytes);
      Ops::template Dot<3, 4, 7>();
    }
    Ops::template Store<0>(w.acc, kRowBytes);
    Ops::template Store<1>(w.acc + kTileFloats, kRowBytes);
    Ops::template Store<2>(w.acc + 2 * kTileFloats, kRowBytes);
    Ops::template Store<3>(w.acc + 3 * kTileFloats, kRowBytes);
  }

  static void Output(const Bf16Output& w) {
    if (!w.rest && w.columns == kBf16PieceBlocks) {
      OutputFour(w);
      return;
    }
    for (int64_t column = 0; column < w.columns; column += 2) {
      if (w.heads == kBf16Lanes) {
        OutputTwo<0, 4>(w, column);
      } else {
        OutputTwo<2, 5>(w, column);
      }
    }
  }
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_AMX_H_
