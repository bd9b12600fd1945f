// The softmax of prefill: a block's scores to weights, lanes are query rows, in AVX-512.
// Called by: prefill_bf16.cc only, on x86-64. Thread-safety: pure functions on their arguments.
#ifndef MLA_KERNELS_X86_PREFILL_SOFTMAX_H_
#define MLA_KERNELS_X86_PREFILL_SOFTMAX_H_

#include "kernels/x86/latent_zmm.h"
#include "kernels/x86/prefill_layout.h"

namespace mla {
namespace prefill {

using zmm::kNone;

// Which of a tile's keys the 16 rows of a group see: lane i those below all + i, and none from
// `keys` on.
struct GroupKeys {
  int64_t all = 0;   // may be negative
  int64_t keys = 0;  // what the last real lane sees

  __mmask16 Lanes(int64_t key) const {
    if (key >= keys) return 0;
    if (key < all) return 0xffff;
    const int64_t first = key - all + 1;
    return static_cast<__mmask16>(first >= 16 ? 0 : 0xffff << first);
  }
  /// Keys that every lane sees.
  int64_t Whole() const { return std::clamp<int64_t>(all, 0, keys); }
};

inline int64_t ScoreAt(int64_t group, int64_t key) {
  return (key / kBf16Block * PrefillLayout::kGroups + group) * PrefillLayout::kPart +
         key % kBf16Block * kBf16Lanes;
}

// 2^x within 2^-18 for x <= 0, exactly 0 for -inf; NaN stays NaN. The weights have 8 bits. Minimax
// polynomial of the relative error on [-1/2, 1/2].
MLA_ZMM_INLINE __m512 Exp2OfWeights(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-200.0f), x);
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(x, whole);
  __m512 p = _mm512_set1_ps(0x1.3997d6p-7f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ca1444p-5f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ec06dap-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e0dcp-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ffffe8p-1f));
  return _mm512_scalef_ps(p, whole);
}

// A weight as bf16 in the upper half. Halves go up; a NaN here comes from bf16 operands and has
// room for that.
MLA_ZMM_INLINE __m512i RoundWeight(__m512 x) {
  const __m512i up = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
  return _mm512_and_si512(up, _mm512_set1_epi32(-0x10000));
}

// exp(score - shift).
MLA_ZMM_INLINE __m512i Weight(const float* score, __m512 shift) {
  return RoundWeight(Exp2OfWeights(_mm512_sub_ps(_mm512_loadu_ps(score), shift)));
}

// Each lane's maximum of the scores that it sees. False if one of them is not finite.
MLA_ZMM_INLINE bool MaxScores(const float* s, int64_t group, const GroupKeys& seen, __m512& best) {
  constexpr int kNotFinite = 0x99;
  best = _mm512_set1_ps(kNone);
  __mmask16 odd = 0;
  const int64_t whole = seen.Whole();
  for (int64_t key = 0; key < whole; ++key) {
    const __m512 x = _mm512_loadu_ps(s + ScoreAt(group, key));
    odd |= _mm512_fpclass_ps_mask(x, kNotFinite);
    best = _mm512_max_ps(best, x);
  }
  for (int64_t key = whole; key < seen.keys; ++key) {
    const __mmask16 lanes = seen.Lanes(key);
    const __m512 x = _mm512_loadu_ps(s + ScoreAt(group, key));
    odd |= _mm512_mask_fpclass_ps_mask(lanes, x, kNotFinite);
    best = _mm512_mask_max_ps(best, lanes, best, x);
  }
  return odd == 0;
}

// Takes `high` for the scores that are not finite.
MLA_ZMM_INLINE __m512 ReplaceNotFinite(const float* high, int64_t group, const GroupKeys& seen,
                                       float* s) {
  constexpr int kNotFinite = 0x99;
  __m512 best = _mm512_set1_ps(kNone);
  for (int64_t key = 0; key < seen.keys; ++key) {
    const int64_t at = ScoreAt(group, key);
    const __m512 x = _mm512_loadu_ps(s + at);
    const __mmask16 odd = _mm512_fpclass_ps_mask(x, kNotFinite);
    const __m512 score = _mm512_mask_loadu_ps(x, odd, high + at);
    _mm512_storeu_ps(s + at, score);
    best = _mm512_mask_max_ps(best, seen.Lanes(key), best, score);
  }
  return best;
}

// Weights of keys 2i and 2i + 1 side by side, for `steps` whole steps; zeros where a lane sees
// nothing. Updates the group's max and sum and returns the factor by which what was there before
// shrinks. The sum is that of the rounded weights, so that the weights of the output add up to 1.
MLA_ZMM_INLINE __m512 Softmax(const PrefillLayout& l, int64_t group, int64_t of_block,
                              const GroupKeys& seen, int64_t steps, __m512 best) {
  const __m512 old = _mm512_loadu_ps(l.max + group * kBf16Lanes);
  const __m512 max = _mm512_max_ps(old, best);
  // With only -inf so far the weights must come out as 0, not as exp(-inf + inf).
  const __mmask16 none = _mm512_cmp_ps_mask(max, _mm512_set1_ps(kNone), _CMP_EQ_OQ);
  const __m512 shift = _mm512_mask_mov_ps(max, none, _mm512_setzero_ps());
  __m512 sum = _mm512_setzero_ps();
  const float* s = l.s;
  float* p = l.p + of_block * PrefillLayout::kPart;
  const auto to = [&](int64_t key) {
    return p + key / kBf16Depth * PrefillLayout::kGroups * PrefillLayout::kPart +
           key % kBf16Depth / 2 * kBf16Lanes;
  };
  int64_t key = 0;
  for (; key + 2 <= seen.Whole(); key += 2) {
    const __m512i even = Weight(s + ScoreAt(of_block, key), shift),
                  odd = Weight(s + ScoreAt(of_block, key + 1), shift);
    sum = _mm512_add_ps(sum, _mm512_castsi512_ps(even));
    sum = _mm512_add_ps(sum, _mm512_castsi512_ps(odd));
    _mm512_storeu_si512(to(key), zmm::Pair(even, odd));
  }
  for (; key < steps * kBf16Depth; key += 2) {
    __m512i both[2];
    for (int i = 0; i < 2; ++i) {
      const __mmask16 lanes = seen.Lanes(key + i);
      both[i] = lanes == 0
                    ? _mm512_setzero_si512()
                    : _mm512_maskz_mov_epi32(lanes, Weight(s + ScoreAt(of_block, key + i), shift));
      sum = _mm512_add_ps(sum, _mm512_castsi512_ps(both[i]));
    }
    _mm512_storeu_si512(to(key), zmm::Pair(both[0], both[1]));
  }
  const __m512 shrink = Exp2OfWeights(_mm512_sub_ps(old, shift));
  float* at = l.sum + group * kBf16Lanes;
  _mm512_storeu_ps(at, _mm512_fmadd_ps(_mm512_loadu_ps(at), shrink, sum));
  _mm512_storeu_ps(l.max + group * kBf16Lanes, max);
  return shrink;
}

}  // namespace prefill
}  // namespace mla

#endif  // MLA_KERNELS_X86_PREFILL_SOFTMAX_H_
