// The softmax of the bf16 families: one tile's scores to weights, in AVX-512.
// Called by: latent_bf16.cc only, on x86-64. Thread-safety: pure functions on their arguments.
#ifndef MLA_KERNELS_X86_LATENT_BF16_SOFTMAX_H_
#define MLA_KERNELS_X86_LATENT_BF16_SOFTMAX_H_

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

#include <limits>

#include "kernels/x86/latent_bf16_layout.h"

#define MLA_ZMM __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define MLA_ZMM_INLINE MLA_ZMM __attribute__((always_inline)) inline

namespace mla {
namespace latent_bf16 {

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

// Each lane's maximum of the scores that a query row sees. False if one of them is not finite.
// Where both parts share lanes they are added first, or the low ones dropped.
MLA_ZMM_INLINE bool MaxScores(float* s, int64_t seen, bool shared, bool low, __m512& best) {
  constexpr int kNotFinite = 0x99;
  best = _mm512_set1_ps(kNone);
  __mmask16 odd = 0;
  for (int64_t row = 0; row < seen; ++row) {
    __m512 x = _mm512_loadu_ps(s + row * kBf16Lanes);
    if (shared) {
      if (low) x = _mm512_add_ps(x, _mm512_shuffle_f32x4(x, x, 0xee));
      _mm512_storeu_ps(s + row * kBf16Lanes, x);
    }
    odd |= _mm512_fpclass_ps_mask(x, kNotFinite);
    best = _mm512_max_ps(best, x);
  }
  return odd == 0;
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

// Scores to bf16 weights; the state's max and sum, and the factor by which what was there before
// shrinks. The sum is that of the rounded weights, so that the weights of the output add up to 1.
MLA_ZMM inline void Softmax(const Bf16Layout& l, int64_t query, int64_t group, int64_t seen,
                            __m512 best) {
  const int64_t at = l.Group(query, group) * kBf16Lanes;
  const float* s = l.s + l.Group(query, group) * Bf16Layout::kScoreFloats;
  float* p = l.p + l.Group(query, group) * Bf16Layout::kScoreFloats / 2;
  const __m512 old = _mm512_loadu_ps(l.max + at);
  const __m512 max = _mm512_max_ps(old, best);
  // With only -inf so far the weights must come out as 0, not as exp(-inf + inf).
  const __mmask16 none = _mm512_cmp_ps_mask(max, _mm512_set1_ps(kNone), _CMP_EQ_OQ);
  const __m512 shift = _mm512_mask_mov_ps(max, none, _mm512_setzero_ps());
  __m512 sum = _mm512_setzero_ps();
  for (int64_t first = 0; first < seen; first += kBf16Depth) {
    __m512i pairs[16];
    for (int i = 0; i < 16; ++i) {
      __m512i weight[2];
      for (int k = 0; k < 2; ++k) {
        const int64_t row = first + 2 * i + k;
        weight[k] = _mm512_setzero_si512();
        if (row >= seen) continue;
        weight[k] = RoundToBf16(Exp2(_mm512_sub_ps(_mm512_loadu_ps(s + row * kBf16Lanes), shift)));
        sum = _mm512_add_ps(sum, _mm512_castsi512_ps(weight[k]));
      }
      pairs[i] = _mm512_or_si512(_mm512_srli_epi32(weight[0], 16), weight[1]);
    }
    Transpose(pairs);
    for (int i = 0; i < 16; ++i) {
      _mm512_storeu_si512(p + (i * kLatentTileRows + first) / 2, pairs[i]);
    }
  }
  const __m512 shrink = Exp2(_mm512_sub_ps(old, shift));
  _mm512_storeu_ps(l.sum + at, _mm512_fmadd_ps(_mm512_loadu_ps(l.sum + at), shrink, sum));
  _mm512_storeu_ps(l.max + at, max);
  _mm512_storeu_ps(l.shrink + at, shrink);
}

}  // namespace latent_bf16
}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_BF16_SOFTMAX_H_
