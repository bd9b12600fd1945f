// The products of bf16 pairs on AMX tiles, as templates of the tile instructions.
// Called by: latent_amx.cc with the real instructions, tests with a model of the tiles.
// Thread-safety: tiles belong to the calling thread, from Begin to End.
#ifndef MLA_KERNELS_X86_LATENT_AMX_H_
#define MLA_KERNELS_X86_LATENT_AMX_H_

#include "kernels/x86/amx_tiles.h"
#include "kernels/x86/latent_bf16.h"

namespace mla {

/// Tiles: 0 to 3 sums, 4 and 5 first operands, 6 and 7 second ones (the scores take them the other
/// way round); all are 16 rows of 64 bytes, unless `rest` heads are beyond whole groups: then 2, 3
/// (sums) and 5 (weights) have `rest` rows for these, so that they cost what they are.
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

  static void Begin(int64_t rest) { Ops::LoadConfig(LatentTileConfig(rest)); }

  // Cached rows of block B as first operand.
  template <int R>
  static void LoadRows(const Bf16Scores& w, int64_t block, int64_t step) {
    int64_t stride;
    const char* rows = w.Rows(block, step, stride);
    Ops::template Load<R>(rows, stride);
    w.prefetch->Next(w.prefetch->lines);
  }

  // One step of blocks B and, if there are two, B + 1. Their sums are in tiles of the same numbers,
  // the parts of the query in tiles 4 and 5; `kFirst` loads these, as late as it can.
  template <int B, bool kPair, bool kTwo, bool kFirst>
  static void ScoreStep(const Bf16Scores& w, int64_t step) {
    const float* q = w.q + step * w.part_stride * kBf16TileFloats;
    LoadRows<6>(w, B, step);
    if constexpr (kFirst) Ops::template Load<4>(q, kRowBytes);
    Ops::template Dot<B, 6, 4>();
    if constexpr (kPair) LoadRows<7>(w, B + 1, step);
    if constexpr (kPair) Ops::template Dot<B + 1, 7, 4>();
    if constexpr (kTwo && kFirst) Ops::template Load<5>(q + kBf16TileFloats, kRowBytes);
    if constexpr (kTwo) Ops::template Dot<B, 6, 5>();
    if constexpr (kTwo && kPair) Ops::template Dot<B + 1, 7, 5>();
  }

  template <int B>
  static void FinishBlock(const Bf16Scores& w) {
    Ops::template Store<B>(w.scores + B * kBf16Block * kBf16Lanes, kRowBytes);
  }

  template <int kBlocks, bool kTwo>
  static void ScoreBlocks(const Bf16Scores& w) {
    Ops::template Zero<0>();
    if constexpr (kBlocks > 1) Ops::template Zero<1>();
    if constexpr (kBlocks > 2) Ops::template Zero<2>();
    if constexpr (kBlocks > 3) Ops::template Zero<3>();
    for (int64_t step = 0; step < w.steps; ++step) {
      ScoreStep<0, (kBlocks > 1), kTwo, true>(w, step);
      if constexpr (kBlocks > 2) ScoreStep<2, (kBlocks > 3), kTwo, false>(w, step);
    }
    FinishBlock<0>(w);
    if constexpr (kBlocks > 1) FinishBlock<1>(w);
    if constexpr (kBlocks > 2) FinishBlock<2>(w);
    if constexpr (kBlocks > 3) FinishBlock<3>(w);
  }

  template <bool kTwo>
  static void ScoresOf(const Bf16Scores& w) {
    switch (w.blocks) {
      case 1:
        return ScoreBlocks<1, kTwo>(w);
      case 2:
        return ScoreBlocks<2, kTwo>(w);
      case 3:
        return ScoreBlocks<3, kTwo>(w);
      default:
        return ScoreBlocks<4, kTwo>(w);
    }
  }

  static void Scores(const Bf16Scores& w) {
    if (w.parts == 2) {
      ScoresOf<true>(w);
    } else {
      ScoresOf<false>(w);
    }
  }

  // Sums in tiles C and C + 1, weights in tile A.
  template <int C, int A>
  static void OutputPiece(const Bf16Output& w) {
    Ops::template Load<C>(w.acc, kRowBytes);
    Ops::template Load<C + 1>(w.acc + w.heads * kBf16Lanes, kRowBytes);
    const auto* p = reinterpret_cast<const char*>(w.p);
    const float* piece = w.piece;
    for (int64_t row = 0; row < w.rows; row += kBf16Depth) {
      Ops::template Load<A>(p, 2 * kLatentTileRows);
      Ops::template Load<6>(piece, kRowBytes);
      Ops::template Dot<C, A, 6>();
      Ops::template Load<7>(piece + kBf16TileFloats, kRowBytes);
      Ops::template Dot<C + 1, A, 7>();
      p += kRowBytes;
      piece += kBf16PieceBlocks * kBf16TileFloats;
    }
    Ops::template Store<C>(w.acc, kRowBytes);
    Ops::template Store<C + 1>(w.acc + w.heads * kBf16Lanes, kRowBytes);
  }

  static void Output(const Bf16Output& w) {
    static_assert(kBf16PieceBlocks == 2);
    if (w.heads == kBf16Lanes) {
      OutputPiece<0, 4>(w);
    } else {
      OutputPiece<2, 5>(w);
    }
  }
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_AMX_H_
