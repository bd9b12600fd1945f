// The softmax of the bf16 families: one tile's scores to weights, in AVX-512.
// Called by: latent_bf16.cc only, on x86-64. Thread-safety: pure functions on their arguments.
#ifndef MLA_KERNELS_X86_LATENT_BF16_SOFTMAX_H_
#define MLA_KERNELS_X86_LATENT_BF16_SOFTMAX_H_

#include "kernels/x86/latent_bf16_layout.h"
#include "kernels/x86/latent_zmm.h"

namespace mla {
namespace latent_bf16 {

using zmm::Exp2;
using zmm::kNone;
using zmm::RoundToBf16;
using zmm::Transpose;

inline constexpr int kNotFinite = 0x99;

// Each lane's maximum of the scores that a query row sees. False if one of them is not finite.
// Where both parts share lanes they are added first.
MLA_ZMM_INLINE bool MaxScores(float* s, int64_t seen, bool shared, __m512& best) {
  best = _mm512_set1_ps(kNone);
  __mmask16 odd = 0;
  for (int64_t row = 0; row < seen; ++row) {
    __m512 x = _mm512_loadu_ps(s + row * kBf16Lanes);
    if (shared) {
      x = _mm512_add_ps(x, _mm512_shuffle_f32x4(x, x, 0xee));
      _mm512_storeu_ps(s + row * kBf16Lanes, x);
    }
    odd |= _mm512_fpclass_ps_mask(x, kNotFinite);
    best = _mm512_max_ps(best, x);
  }
  return odd == 0;
}

// Takes `high` for the scores that are not finite. Returns each lane's maximum.
MLA_ZMM_INLINE __m512 ReplaceNotFinite(const float* high, int64_t seen, float* s) {
  __m512 best = _mm512_set1_ps(kNone);
  for (int64_t at = 0; at < seen * kBf16Lanes; at += kBf16Lanes) {
    const __m512 x = _mm512_loadu_ps(s + at);
    const __mmask16 odd = _mm512_fpclass_ps_mask(x, kNotFinite);
    const __m512 score = _mm512_mask_loadu_ps(x, odd, high + at);
    _mm512_storeu_ps(s + at, score);
    best = _mm512_max_ps(best, score);
  }
  return best;
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
