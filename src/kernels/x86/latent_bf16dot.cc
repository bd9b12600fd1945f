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

// TR rows from `row` of a block on, against NP panels from `panel` on.
template <int TR, int NP>
MLA_BF16_INLINE void ScoreRows(const Bf16Scores& w, int64_t block, int64_t row, int64_t panel) {
  const int64_t panel_floats = w.steps * kBf16Depth / 2 * kBf16Lanes;
  const float* q = w.q + panel * panel_floats;
  __m512 acc[TR][NP];
  for (int i = 0; i < TR; ++i) {
    for (int n = 0; n < NP; ++n) acc[i][n] = _mm512_setzero_ps();
  }
  for (int64_t step = 0; step < w.steps; ++step) {
    w.prefetch->Next();
    const bool whole = step < w.whole;
    const int64_t stride = whole ? w.row_bytes[block] : 2 * kBf16Depth;
    const char* rows = whole ? w.block[block] + step * 2 * kBf16Depth + row * stride
                             : w.tail + (block * kBf16Block + row) * stride;
    for (int pair = 0; pair < kBf16Depth / 2; ++pair) {
      __m512bh qv[NP];
      for (int n = 0; n < NP; ++n) qv[n] = Pairs(q + n * panel_floats);
      q += kBf16Lanes;
      for (int i = 0; i < TR; ++i) {
        const __m512bh k = Broadcast(rows + i * stride + 4 * pair);
        for (int n = 0; n < NP; ++n) acc[i][n] = _mm512_dpbf16_ps(acc[i][n], k, qv[n]);
      }
    }
  }
  for (int n = 0; n < NP; ++n) {
    float* to = w.scores + ((panel + n) * kLatentTileRows + block * kBf16Block + row) * kBf16Lanes;
    for (int i = 0; i < TR; ++i) _mm512_storeu_ps(to + i * kBf16Lanes, acc[i][n]);
  }
}

MLA_BF16_ZMM void Scores(const Bf16Scores& w) {
  for (int64_t block = 0; block < w.blocks; ++block) {
    int64_t panel = 0;
    for (; panel + 2 <= w.panels; panel += 2) {
      ScoreRows<8, 2>(w, block, 0, panel);
      ScoreRows<8, 2>(w, block, 8, panel);
    }
    if (panel < w.panels) ScoreRows<16, 1>(w, block, 0, panel);
  }
}

// NC blocks of columns for MR heads from `head` on.
template <int MR, int NC>
MLA_BF16_INLINE void OutputHeads(const Bf16Output& w, int64_t head, int64_t column) {
  constexpr int64_t kStepFloats = kBf16PieceBlocks * kBf16Depth / 2 * kBf16Lanes;
  constexpr int64_t kBlockFloats = kBf16Depth / 2 * kBf16Lanes;
  const char* p = reinterpret_cast<const char*>(w.p + head * kLatentTileRows / 2);
  float* acc = w.acc + (column * w.heads + head) * kBf16Lanes;
  const int64_t acc_block = w.heads * kBf16Lanes;
  __m512 c[MR][NC];
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NC; ++j) c[i][j] = _mm512_loadu_ps(acc + j * acc_block + i * kBf16Lanes);
  }
  const int64_t pairs = (w.rows + 1) / 2;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const float* rows = w.piece + pair / (kBf16Depth / 2) * kStepFloats + column * kBlockFloats +
                        pair % (kBf16Depth / 2) * kBf16Lanes;
    __m512bh v[NC];
    for (int j = 0; j < NC; ++j) v[j] = Pairs(rows + j * kBlockFloats);
    for (int i = 0; i < MR; ++i) {
      const __m512bh weights = Broadcast(p + i * 2 * kLatentTileRows + 4 * pair);
      for (int j = 0; j < NC; ++j) c[i][j] = _mm512_dpbf16_ps(c[i][j], weights, v[j]);
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NC; ++j) _mm512_storeu_ps(acc + j * acc_block + i * kBf16Lanes, c[i][j]);
  }
}

template <int NC>
MLA_BF16_INLINE void OutputColumns(const Bf16Output& w, int64_t column) {
  int64_t head = 0;
  for (; head + 6 <= w.heads; head += 6) OutputHeads<6, NC>(w, head, column);
  for (; head + 4 <= w.heads; head += 4) OutputHeads<4, NC>(w, head, column);
  for (; head + 2 <= w.heads; head += 2) OutputHeads<2, NC>(w, head, column);
  if (head < w.heads) OutputHeads<1, NC>(w, head, column);
}

MLA_BF16_ZMM void Output(const Bf16Output& w) {
  if (w.columns == kBf16PieceBlocks) {
    OutputColumns<4>(w, 0);
  } else {
    for (int64_t column = 0; column < w.columns; column += 2) OutputColumns<2>(w, column);
  }
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
