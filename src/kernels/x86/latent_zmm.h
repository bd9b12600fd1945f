// AVX-512 steps that the latent kernels around matrix units share: exponentials, bf16 parts,
// transposes, k_rope in two parts.
// Called by: kernels/x86/latent_*.cc and prefill_*.h only, on x86-64. Thread-safety: pure functions
// on their arguments.
#ifndef MLA_KERNELS_X86_LATENT_ZMM_H_
#define MLA_KERNELS_X86_LATENT_ZMM_H_

// GCC 12 takes the vectors that its own header leaves undefined for mistakes (bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/attend.h"
#include "kernels/x86/latent_bf16.h"

#define MLA_ZMM __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define MLA_ZMM_INLINE MLA_ZMM __attribute__((always_inline)) inline

namespace mla {
namespace zmm {

inline constexpr float kNone = -std::numeric_limits<float>::infinity();

// As Exp2NotAboveZero of kernels/exp2-inl.h.
MLA_ZMM_INLINE __m512 Exp2(__m512 x) {
  // The second operand is the result where one is NaN.
  x = _mm512_max_ps(_mm512_set1_ps(-127.0f), x);
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(x, whole);
  __m512 p = _mm512_set1_ps(0x1.41d334p-13f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.5f456ap-10f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.3b2dbcp-7f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c6aed4p-5f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebfbdap-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e430p-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(whole), _mm512_set1_epi32(127));
  return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23)));
}

// The nearest bf16, as fp32; NaN stays NaN.
MLA_ZMM_INLINE __m512i RoundToBf16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i cut = _mm512_and_si512(up, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_mov_epi32(cut, nan, _mm512_set1_epi32(0x7fc00000));
}

// x = high + low but for 2^-17 of it, as fp32: the nearest bf16, then what is left of it rounded
// alike. What is rounded up to infinity is cut off instead; low is 0 if x is not finite.
MLA_ZMM_INLINE void Split(__m512 x, __m512i& high, __m512i& low) {
  constexpr int kNotFinite = 0x99;
  const __mmask16 finite = static_cast<__mmask16>(~_mm512_fpclass_ps_mask(x, kNotFinite));
  const __m512i cut = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(-0x10000));
  high = RoundToBf16(x);
  const __mmask16 over = _mm512_fpclass_ps_mask(_mm512_castsi512_ps(high), kNotFinite) & finite;
  high = _mm512_mask_mov_epi32(high, over, cut);
  low = RoundToBf16(_mm512_maskz_sub_ps(finite, x, _mm512_castsi512_ps(high)));
}

inline __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : (1 << std::max<int64_t>(count, 0)) - 1);
}

// Pairs of bf16 in 32 bits, the first in the lower half.
MLA_ZMM_INLINE __m512i Pair(__m512i even, __m512i odd) {
  return _mm512_or_si512(_mm512_srli_epi32(even, 16), odd);
}

// 16 x 16 numbers of 32 bits, in place.
MLA_ZMM_INLINE void Transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  // r[4i + k]: column 4j + k of rows 4i .. 4i + 3 in its 128-bit block j.
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int k = 0; k < 4; ++k) {
    const __m512i low_even = _mm512_shuffle_i32x4(r[k], r[4 + k], 0x88);
    const __m512i low_odd = _mm512_shuffle_i32x4(r[k], r[4 + k], 0xdd);
    const __m512i high_even = _mm512_shuffle_i32x4(r[8 + k], r[12 + k], 0x88);
    const __m512i high_odd = _mm512_shuffle_i32x4(r[8 + k], r[12 + k], 0xdd);
    t[k] = _mm512_shuffle_i32x4(low_even, high_even, 0x88);
    t[4 + k] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
    t[8 + k] = _mm512_shuffle_i32x4(low_even, high_even, 0xdd);
    t[12 + k] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xdd);
  }
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

// 16 columns of `heads` heads, `count` of which there are, in log2 units: vectors of one column,
// lanes are heads.
MLA_ZMM_INLINE void LoadColumns(const float* from, int64_t head_stride, int64_t heads,
                                int64_t count, __m512i (&columns)[16]) {
  const __mmask16 mask = FirstLanes(count);
  const __m512 unit = _mm512_set1_ps(kLog2E);
  for (int64_t i = 0; i < 16; ++i) {
    columns[i] = i < heads ? _mm512_castps_si512(_mm512_mul_ps(
                                 _mm512_maskz_loadu_ps(mask, from + i * head_stride), unit))
                           : _mm512_setzero_si512();
  }
  Transpose(columns);
}

// Both parts of pair `pair` of a step of a query. `shared`: the first 8 heads only, high parts in
// the lower lanes and low parts in the upper.
MLA_ZMM_INLINE void PutParts(float* step, int64_t pair, bool shared, __m512i high, __m512i low) {
  if (shared) {
    high = _mm512_inserti64x4(high, _mm512_castsi512_si256(low), 1);
  } else {
    _mm512_storeu_si512(step + (kBf16Pairs + pair) * kBf16Lanes, low);
  }
  _mm512_storeu_si512(step + pair * kBf16Lanes, high);
}

// `width` columns of a group's query without position, in steps of 32, `step_floats` apart: pairs
// of neighbours, lanes are heads. Zeros up to whole steps. In log2 units from here on.
MLA_ZMM inline void PackQuery(const float* from, int64_t head_stride, int64_t heads, int64_t width,
                              bool shared, int64_t step_floats, float* to) {
  for (int64_t column = 0; column < width || column % kBf16Depth != 0; column += 16) {
    __m512i columns[16];
    LoadColumns(from + column, head_stride, heads, width - column, columns);
    for (int64_t i = 0; i < 16; i += 2) {
      __m512i high[2], low[2];
      for (int k = 0; k < 2; ++k) Split(_mm512_castsi512_ps(columns[i + k]), high[k], low[k]);
      PutParts(to, column % kBf16Depth / 2 + i / 2, shared, Pair(high[0], high[1]),
               Pair(low[0], low[1]));
    }
    if (column % kBf16Depth != 0) to += step_floats;
  }
}

// The rotated part of a group's query in steps of 16 columns, `step_floats` apart: pairs of one
// column with itself, which meet both parts of the key.
MLA_ZMM inline void PackRopeQuery(const float* from, int64_t head_stride, int64_t heads,
                                  int64_t rope, bool shared, int64_t step_floats, float* to) {
  for (int64_t column = 0; column < rope; column += 16) {
    __m512i columns[16];
    LoadColumns(from + column, head_stride, heads, rope - column, columns);
    for (int64_t i = 0; i < 16; ++i) {
      __m512i high, low;
      Split(_mm512_castsi512_ps(columns[i]), high, low);
      PutParts(to, i, shared, Pair(high, high), Pair(low, low));
    }
    to += step_floats;
  }
}

// k_rope of one row as pairs of two bf16 parts, whose sum is the fp16 number exactly: 8 bits, then
// the other 3. The second is 0 for what is not finite. Zeros up to `width`, a multiple of 16.
MLA_ZMM_INLINE void SplitRopeRow(const char* from, int64_t rope, int64_t width, float* to) {
  constexpr int kNotFinite = 0x99;
  const __mmask16 last = FirstLanes(rope - (width - 16));
  for (int64_t x = 0; x < width; x += 16) {
    const __mmask16 mask = x + 16 == width ? last : 0xffff;
    const __m512 whole = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from + 2 * x));
    const __m512i high = _mm512_and_si512(_mm512_castps_si512(whole), _mm512_set1_epi32(-0x10000));
    const __mmask16 odd = _mm512_fpclass_ps_mask(whole, kNotFinite);
    const __m512 low =
        _mm512_maskz_sub_ps(static_cast<__mmask16>(~odd), whole, _mm512_castsi512_ps(high));
    _mm512_storeu_si512(to + x, Pair(high, _mm512_castps_si512(low)));
  }
}

// How many of the tile's rows query row i sees.
inline int64_t Seen(const LatentTileRows& tile, int64_t query) {
  return std::clamp<int64_t>(tile.visible + query, 0, tile.count);
}

inline int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace zmm
}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_ZMM_H_
