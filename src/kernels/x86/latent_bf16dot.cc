// The products of bf16 pairs with VDPBF16PS.
#include "kernels/x86/latent_bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace mla {
namespace {

// Per function instead of a flag on the file: an inline function compiled with such a flag could be
// the copy that the linker keeps for everybody.
#define MLA_BF16_ZMM __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define MLA_BF16_INLINE MLA_BF16_ZMM __attribute__((always_inline)) inline

MLA_BF16_INLINE __m512bh Pairs(const float* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}

MLA_BF16_INLINE __m512bh Broadcast(const char* pair) {
  int32_t bits;
  std::memcpy(&bits, pair, sizeof(bits));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}

// TR rows from `row` of a block on, times the parts of the query.
template <int TR>
MLA_BF16_INLINE void ScoreRows(const Bf16Scores& w, int64_t block, int64_t row) {
  __m512 acc[TR];
  for (int i = 0; i < TR; ++i) acc[i] = _mm512_setzero_ps();
  for (int64_t step = 0; step < w.steps; ++step) {
    w.prefetch->Next(w.prefetch->lines);
    int64_t stride;
    const char* rows = w.Rows(block, step, stride);
    rows += row * stride;
    for (int64_t part = 0; part < w.parts; ++part) {
      const float* q = w.q + (step * w.part_stride + part) * kBf16TileFloats;
      for (int pair = 0; pair < kBf16Pairs; ++pair) {
        const __m512bh qv = Pairs(q + pair * kBf16Lanes);
        for (int i = 0; i < TR; ++i) {
          acc[i] = _mm512_dpbf16_ps(acc[i], Broadcast(rows + i * stride + 4 * pair), qv);
        }
      }
    }
  }
  float* to = w.scores + (block * kBf16Block + row) * kBf16Lanes;
  for (int i = 0; i < TR; ++i) _mm512_storeu_ps(to + i * kBf16Lanes, acc[i]);
}

MLA_BF16_ZMM void Scores(const Bf16Scores& w) {
  for (int64_t block = 0; block < w.blocks; ++block) ScoreRows<kBf16Block>(w, block, 0);
}

// MR heads from `head` on.
template <int MR>
MLA_BF16_INLINE void OutputHeads(const Bf16Output& w, int64_t head) {
  constexpr int64_t kStepFloats = kBf16PieceBlocks * kBf16TileFloats;
  constexpr int NC = kBf16PieceBlocks;
  const char* p = reinterpret_cast<const char*>(w.p + head * kLatentTileRows / 2);
  float* acc = w.acc + head * kBf16Lanes;
  const int64_t acc_block = w.heads * kBf16Lanes;
  __m512 c[MR][NC];
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NC; ++j) c[i][j] = _mm512_loadu_ps(acc + j * acc_block + i * kBf16Lanes);
  }
  const int64_t pairs = (w.rows + 1) / 2;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const float* rows = w.piece + pair / (kBf16Pairs)*kStepFloats + pair % (kBf16Pairs)*kBf16Lanes;
    __m512bh v[NC];
    for (int j = 0; j < NC; ++j) v[j] = Pairs(rows + j * kBf16TileFloats);
    for (int i = 0; i < MR; ++i) {
      const __m512bh weights = Broadcast(p + i * 2 * kLatentTileRows + 4 * pair);
      for (int j = 0; j < NC; ++j) c[i][j] = _mm512_dpbf16_ps(c[i][j], weights, v[j]);
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NC; ++j) _mm512_storeu_ps(acc + j * acc_block + i * kBf16Lanes, c[i][j]);
  }
}

MLA_BF16_ZMM void Output(const Bf16Output& w) {
  int64_t head = 0;
  for (; head + 8 <= w.heads; head += 8) OutputHeads<8>(w, head);
  for (; head + 4 <= w.heads; head += 4) OutputHeads<4>(w, head);
  for (; head < w.heads; ++head) OutputHeads<1>(w, head);
}

}  // namespace

const Bf16Products* Bf16DotProducts() noexcept {
  static constexpr Bf16Products kProducts = {[](int64_t) {}, Scores, Output, [] {}};
  return &kProducts;
}

}  // namespace mla

#else

namespace mla {
const Bf16Products* Bf16DotProducts() noexcept { return nullptr; }
}  // namespace mla

#endif
