// The products of the AMX family for int8 latents, as templates of the tile instructions.
// Called by: latent_int8_amx.cc with the real instructions, tests with a model of the tiles.
// Thread-safety: tiles belong to the calling thread, from begin to end.
#ifndef MLA_KERNELS_X86_LATENT_INT8_TILES_H_
#define MLA_KERNELS_X86_LATENT_INT8_TILES_H_

#include "kernels/x86/amx_tiles.h"
#include "kernels/x86/latent_int8_amx.h"

namespace mla {

/// Tiles of the scores: 0 to 3 sums, 4 and 5 rows, 6 and 7 parts of the query. Of the output: 0 to
/// 3 sums, 4 weights, 5 rows; 6 and 7 sums and weights of the heads beyond whole groups, both parts
/// below each other, so that they cost what they are. All 16 rows of 64 bytes but these.
inline TileConfig Int8TileConfig(int64_t rest) {
  TileConfig config;
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    config.rows[tile] = static_cast<uint8_t>(rest > 0 && tile >= 6 ? 2 * rest : 16);
    config.row_bytes[tile] = 64;
  }
  return config;
}

/// Ops is as for LatentAmx, with DotInt8<C, A, B>(): C[m][n] += the sum over k and i < 4 of
/// A[m][4k + i]·B[k][4n + i], signed bytes.
template <class Ops>
class LatentInt8Tiles {
 public:
  static constexpr Int8TileProducts Products() { return {Begin, Scores, Output, Ops::Release}; }

 private:
  static constexpr int64_t kRowBytes = 64;

  static void Begin(int64_t rest) { Ops::LoadConfig(Int8TileConfig(rest)); }

  template <bool kRope, int C, int A, int B>
  static void Dot() {
    if constexpr (kRope) {
      Ops::template Dot<C, A, B>();
    } else {
      Ops::template DotInt8<C, A, B>();
    }
  }

  template <bool kRope, int T>
  static void LoadRows(const Int8Scores& w, int64_t block, int64_t step) {
    const int64_t stride = kRope ? w.rope_steps * kRowBytes : w.row_bytes;
    const char* rows = kRope ? w.rope : w.rows;
    Ops::template Load<T>(rows + block * kBf16Block * stride + step * kRowBytes, stride);
  }

  static void RunBeside(const Int8Scores& w, int64_t step) {
    if (w.beside != nullptr) w.beside->run(*w.beside, step);
  }

  template <bool kRope>
  static const char* Query(const Int8Scores& w, int64_t step) {
    const char* q = kRope ? reinterpret_cast<const char*>(w.q_rope) : w.q;
    return q + step * w.parts * kInt8TileBytes;
  }

  template <bool kRope, int T>
  static void StoreSums(const Int8Scores& w, int64_t part, int64_t block) {
    const int64_t at = (part * kInt8Blocks + block) * kBf16Block * kBf16Lanes;
    if constexpr (kRope) {
      Ops::template Store<T>(w.rope_sums + at, kRowBytes);
    } else {
      Ops::template Store<T>(w.sums + at, kRowBytes);
    }
  }

  // Both parts of the query, each with sums of its own, for one or two blocks.
  template <bool kRope, bool kPair>
  static void TwoParts(const Int8Scores& w, int64_t block) {
    Ops::template Zero<0>();
    Ops::template Zero<1>();
    if constexpr (kPair) Ops::template Zero<2>();
    if constexpr (kPair) Ops::template Zero<3>();
    const int64_t steps = kRope ? w.rope_steps : w.steps;
    for (int64_t step = 0; step < steps; ++step) {
      const char* q = Query<kRope>(w, step);
      LoadRows<kRope, 4>(w, block, step);
      Ops::template Load<6>(q, kRowBytes);
      Dot<kRope, 0, 4, 6>();
      Ops::template Load<7>(q + kInt8TileBytes, kRowBytes);
      Dot<kRope, 1, 4, 7>();
      if constexpr (kPair) LoadRows<kRope, 5>(w, block + 1, step);
      if constexpr (kPair) Dot<kRope, 2, 5, 6>();
      if constexpr (kPair) Dot<kRope, 3, 5, 7>();
      if (!kRope && block == 0) RunBeside(w, step);
    }
    StoreSums<kRope, 0>(w, 0, block);
    StoreSums<kRope, 1>(w, 1, block);
    if constexpr (kPair) StoreSums<kRope, 2>(w, 0, block + 1);
    if constexpr (kPair) StoreSums<kRope, 3>(w, 1, block + 1);
  }

  // One part, for up to four blocks.
  template <bool kRope, int kBlocks>
  static void OnePart(const Int8Scores& w) {
    Ops::template Zero<0>();
    if constexpr (kBlocks > 1) Ops::template Zero<1>();
    if constexpr (kBlocks > 2) Ops::template Zero<2>();
    if constexpr (kBlocks > 3) Ops::template Zero<3>();
    const int64_t steps = kRope ? w.rope_steps : w.steps;
    for (int64_t step = 0; step < steps; ++step) {
      Ops::template Load<6>(Query<kRope>(w, step), kRowBytes);
      LoadRows<kRope, 4>(w, 0, step);
      Dot<kRope, 0, 4, 6>();
      if constexpr (kBlocks > 1) LoadRows<kRope, 5>(w, 1, step);
      if constexpr (kBlocks > 1) Dot<kRope, 1, 5, 6>();
      if constexpr (kBlocks > 2) LoadRows<kRope, 4>(w, 2, step);
      if constexpr (kBlocks > 2) Dot<kRope, 2, 4, 6>();
      if constexpr (kBlocks > 3) LoadRows<kRope, 5>(w, 3, step);
      if constexpr (kBlocks > 3) Dot<kRope, 3, 5, 6>();
      if (!kRope) RunBeside(w, step);
    }
    StoreSums<kRope, 0>(w, 0, 0);
    if constexpr (kBlocks > 1) StoreSums<kRope, 1>(w, 0, 1);
    if constexpr (kBlocks > 2) StoreSums<kRope, 2>(w, 0, 2);
    if constexpr (kBlocks > 3) StoreSums<kRope, 3>(w, 0, 3);
  }

  template <bool kRope>
  static void ScoresOf(const Int8Scores& w) {
    if (w.parts == 2) {
      int64_t block = 0;
      for (; block + 2 <= w.blocks; block += 2) TwoParts<kRope, true>(w, block);
      if (block < w.blocks) TwoParts<kRope, false>(w, block);
      return;
    }
    switch (w.blocks) {
      case 1:
        return OnePart<kRope, 1>(w);
      case 2:
        return OnePart<kRope, 2>(w);
      case 3:
        return OnePart<kRope, 3>(w);
      default:
        return OnePart<kRope, 4>(w);
    }
  }

  static void Scores(const Int8Scores& w) {
    ScoresOf<false>(w);
    ScoresOf<true>(w);
  }

  // Two blocks of columns, each with sums of both parts.
  static void OutputPair(const Int8Output& w, const char* quads, int32_t* sums) {
    constexpr int64_t kPart = kBf16Lanes * kBf16Lanes;
    Ops::template Zero<0>();
    Ops::template Zero<1>();
    Ops::template Zero<2>();
    Ops::template Zero<3>();
    const char* p = w.p;
    for (int64_t step = 0; step < w.steps; ++step, p += kInt8Depth, quads += w.step_bytes) {
      Ops::template Load<4>(p, kLatentTileRows);
      Ops::template Load<5>(quads, kRowBytes);
      Ops::template DotInt8<0, 4, 5>();
      Ops::template Load<5>(quads + w.block_bytes, kRowBytes);
      Ops::template DotInt8<2, 4, 5>();
      Ops::template Load<4>(p + kBf16Lanes * kLatentTileRows, kLatentTileRows);
      Ops::template DotInt8<3, 4, 5>();
      Ops::template Load<5>(quads, kRowBytes);
      Ops::template DotInt8<1, 4, 5>();
      w.prefetch->Next(w.prefetch->lines);
    }
    Ops::template Store<0>(sums, kRowBytes);
    Ops::template Store<1>(sums + kPart, kRowBytes);
    Ops::template Store<2>(sums + 2 * kPart, kRowBytes);
    Ops::template Store<3>(sums + 3 * kPart, kRowBytes);
  }

  static void Output(const Int8Output& w) {
    if (!w.shared) {
      OutputPair(w, w.quads, w.sums);
      OutputPair(w, w.quads + 2 * w.block_bytes, w.sums + 4 * kBf16Lanes * kBf16Lanes);
      return;
    }
    for (int64_t block = 0; block < kInt8PieceBlocks; ++block) {
      Ops::template Zero<6>();
      for (int64_t step = 0; step < w.steps; ++step) {
        Ops::template Load<7>(w.p + step * kInt8Depth, kLatentTileRows);
        Ops::template Load<5>(w.quads + step * w.step_bytes + block * w.block_bytes, kRowBytes);
        Ops::template DotInt8<6, 7, 5>();
        w.prefetch->Next(w.prefetch->lines);
      }
      Ops::template Store<6>(w.sums + block * 2 * w.heads * kBf16Lanes, kRowBytes);
    }
  }
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_INT8_TILES_H_
