#include "kernels/x86/block_product.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "kernels/x86/real_tiles.h"

namespace mla {
namespace {

// Per function instead of a flag on the file: an inline function compiled with such a flag could be
// the copy that the linker keeps for everybody.
#define MLA_BF16_ZMM __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define MLA_BF16_INLINE MLA_BF16_ZMM __attribute__((always_inline)) inline

// MR rows from `row` of tile row i, C columns of tiles.
template <int MR, int C>
MLA_BF16_INLINE void Rows(const BlockProduct& w, int i, int64_t row) {
  __m512 acc[MR][C];
  for (int r = 0; r < MR; ++r) {
    for (int j = 0; j < C; ++j) {
      acc[r][j] =
          w.accumulate ? _mm512_loadu_ps(w.c[i][j] + (row + r) * kBf16Lanes) : _mm512_setzero_ps();
    }
  }
  for (int64_t step = 0; step < w.steps + w.again; ++step) {
    const char* a = w.a[i] + step * w.a_step + row * w.a_row;
    const int64_t of_b = step < w.steps ? step : step - w.again;
    const int64_t parts = step < w.steps ? w.parts : 1;
    for (int64_t part = 0; part < parts; ++part) {
      for (int pair = 0; pair < kBf16Pairs; ++pair) {
        const int64_t at = of_b * w.b_step + part * kBf16TileFloats + pair * kBf16Lanes;
        __m512bh b[C];
        for (int j = 0; j < C; ++j) {
          b[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w.b[j] + at));
        }
        for (int r = 0; r < MR; ++r) {
          int32_t bits;
          std::memcpy(&bits, a + r * w.a_row + 4 * pair, sizeof(bits));
          const __m512bh both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
          for (int j = 0; j < C; ++j) acc[r][j] = _mm512_dpbf16_ps(acc[r][j], both, b[j]);
        }
      }
    }
  }
  for (int r = 0; r < MR; ++r) {
    for (int j = 0; j < C; ++j) _mm512_storeu_ps(w.c[i][j] + (row + r) * kBf16Lanes, acc[r][j]);
  }
}

MLA_BF16_ZMM void DotProducts(const BlockProduct& w) {
  constexpr int kRows = 8;
  for (int i = 0; i < w.rows; ++i) {
    for (int64_t row = 0; row < kBf16Lanes; row += kRows) {
      if (w.columns == 2) {
        Rows<kRows, 2>(w, i, row);
      } else {
        Rows<kRows, 1>(w, i, row);
      }
    }
  }
}

}  // namespace

const BlockProducts* Bf16DotBlockProducts() noexcept {
  static constexpr BlockProducts kProducts = {[] {}, DotProducts, [] {}};
  return &kProducts;
}

const BlockProducts* AmxBlockProducts() noexcept {
  static constexpr BlockProducts kProducts = AmxProduct<RealTiles>::Products();
  return &kProducts;
}

}  // namespace mla

#else

namespace mla {
const BlockProducts* Bf16DotBlockProducts() noexcept { return nullptr; }
const BlockProducts* AmxBlockProducts() noexcept { return nullptr; }
}  // namespace mla

#endif
