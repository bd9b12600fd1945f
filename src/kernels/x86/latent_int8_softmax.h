// The softmax of the AMX family for int8 latents: sums of products to scores to weights of two
// bytes.
// Called by: latent_int8_amx.cc only, on x86-64. Thread-safety: pure functions on their arguments.
#ifndef MLA_KERNELS_X86_LATENT_INT8_SOFTMAX_H_
#define MLA_KERNELS_X86_LATENT_INT8_SOFTMAX_H_

#include "kernels/x86/latent_int8_layout.h"
#include "kernels/x86/latent_zmm.h"

namespace mla {
namespace latent_int8 {

using zmm::Exp2;
using zmm::kNone;
using zmm::Transpose;

// Tiles whose largest weight is below this contribute nothing: its inverse must stay finite.
inline constexpr float kLeastWeight = 1e-30f;

// The sums of one cached row with both parts of the queries, the rotated ones apart: the low part
// of a query times an infinite key is an infinity of either sign, or NaN.
struct RowSums {
  __m512 c_kv, rope_high, rope_low;
};

MLA_ZMM_INLINE RowSums LoadSums(const Int8AmxLayout& l, int64_t row, bool shared) {
  constexpr int64_t kPart = Int8AmxLayout::kRunRows * kBf16Lanes;
  const int64_t at = row * kBf16Lanes;
  const __m512 high = _mm512_cvtepi32_ps(_mm512_loadu_si512(l.sums + at));
  const __m512 unit = _mm512_set1_ps(256.0f);
  RowSums r;
  r.rope_high = _mm512_loadu_ps(l.rope_sums + at);
  if (shared) {
    r.c_kv = _mm512_fmadd_ps(high, unit, _mm512_shuffle_f32x4(high, high, 0xee));
    r.rope_low = _mm512_shuffle_f32x4(r.rope_high, r.rope_high, 0xee);
  } else {
    const __m512 low = _mm512_cvtepi32_ps(_mm512_loadu_si512(l.sums + kPart + at));
    r.c_kv = _mm512_fmadd_ps(high, unit, low);
    r.rope_low = _mm512_loadu_ps(l.rope_sums + kPart + at);
  }
  return r;
}

// The sums of a run of `rows` rows from `first` of the tile on to scores in log2 units, and the
// maximum so far. Where a score is not finite the high parts alone count.
MLA_ZMM inline void RunScores(const Int8AmxLayout& l, int64_t at, int64_t first, int64_t rows,
                              bool shared) {
  constexpr int kNotFinite = 0x99;
  const __m512 q_scale = _mm512_loadu_ps(l.q_scale + at * kBf16Lanes);
  float* s = l.s + at * Int8AmxLayout::kScoreFloats + first * kBf16Lanes;
  __m512 best = first == 0 ? _mm512_set1_ps(kNone) : _mm512_loadu_ps(l.best + at * kBf16Lanes);
  for (int64_t row = 0; row < rows; ++row) {
    const RowSums sums = LoadSums(l, row, shared);
    const __m512 scale = _mm512_mul_ps(q_scale, _mm512_set1_ps(l.row_scale[first + row]));
    __m512 x = _mm512_fmadd_ps(sums.c_kv, scale, _mm512_add_ps(sums.rope_high, sums.rope_low));
    const __mmask16 odd = _mm512_fpclass_ps_mask(x, kNotFinite);
    x = _mm512_mask_mov_ps(x, odd, _mm512_fmadd_ps(sums.c_kv, scale, sums.rope_high));
    _mm512_storeu_ps(s + row * kBf16Lanes, x);
    best = _mm512_max_ps(best, x);
  }
  _mm512_storeu_ps(l.best + at * kBf16Lanes, best);
}

// Rows a, c in the halves of 32 bits, of weights as whole numbers.
MLA_ZMM_INLINE __m512i Halves(__m512i a, __m512i c) {
  return _mm512_mask_blend_epi16(0xaaaaaaaau, a, _mm512_slli_epi32(c, 16));
}

// Weights of 64 rows to bytes: p [2, weight rows, kLatentTileRows] from row `first` on.
MLA_ZMM_INLINE void StoreWeights(const float* w, int64_t rows, __m512 inverse, int64_t heads,
                                 char* p) {
  constexpr int64_t kQuads = kInt8Depth / 4;
  const __m512i even = _mm512_set1_epi32(0x00ff00ff);
  const __m512i half = _mm512_set1_epi32(0x00800080);
  const auto whole = [&](int64_t row) MLA_ZMM {
    return row < rows
               ? _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(w + row * kBf16Lanes), inverse))
               : _mm512_setzero_si512();
  };
  __m512i high[kQuads], low[kQuads];
  for (int64_t quad = 0; quad < kQuads; ++quad) {
    const int64_t row = 4 * quad;
    const __m512i x = Halves(whole(row), whole(row + 2));
    const __m512i y = Halves(whole(row + 1), whole(row + 3));
    // Select (even ? a : b), bit by bit.
    constexpr int kSelect = 0xca;
    low[quad] = _mm512_ternarylogic_epi32(even, x, _mm512_slli_epi16(y, 8), kSelect);
    high[quad] = _mm512_ternarylogic_epi32(even, _mm512_srli_epi16(_mm512_add_epi16(x, half), 8),
                                           _mm512_add_epi16(y, half), kSelect);
  }
  Transpose(high);
  Transpose(low);
  for (int64_t i = 0; i < heads; ++i) {
    _mm512_storeu_si512(p + i * kLatentTileRows, high[i]);
    _mm512_storeu_si512(p + (heads + i) * kLatentTileRows, low[i]);
  }
}

// A tile's scores to weights, probability times the row's scale, as whole numbers on the scale of
// the largest, so that the weights of a tile in a long flat tail keep their precision. `steps` of
// kInt8Depth rows, zeros beyond those seen. The state's max and sum, and the factors by which what
// was there before shrinks and the new sums grow.
MLA_ZMM inline void Softmax(const Int8AmxLayout& l, int64_t query, int64_t group, int64_t seen) {
  const int64_t at = l.Group(query, group) * kBf16Lanes;
  float* s = l.s + at * kLatentTileRows;
  const __m512 old = _mm512_loadu_ps(l.max + at);
  const __m512 max = _mm512_max_ps(old, _mm512_loadu_ps(l.best + at));
  // With only -inf so far the weights must come out as 0, not as exp(-inf + inf).
  const __mmask16 none = _mm512_cmp_ps_mask(max, _mm512_set1_ps(kNone), _CMP_EQ_OQ);
  const __m512 shift = _mm512_mask_mov_ps(max, none, _mm512_setzero_ps());
  __m512 sum = _mm512_setzero_ps();
  __m512 largest = _mm512_setzero_ps();
  for (int64_t row = 0; row < seen; ++row) {
    const __m512 p = Exp2(_mm512_sub_ps(_mm512_loadu_ps(s + row * kBf16Lanes), shift));
    sum = _mm512_add_ps(sum, p);
    // NaN is kept by the sum; as a weight it has no integer. The second operand is the result where
    // one is NaN.
    const __m512 w =
        _mm512_max_ps(_mm512_mul_ps(p, _mm512_set1_ps(l.row_scale[row])), _mm512_setzero_ps());
    _mm512_storeu_ps(s + row * kBf16Lanes, w);
    largest = _mm512_max_ps(largest, w);
  }
  const __mmask16 some = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(kLeastWeight), _CMP_GE_OQ);
  const __m512 most = _mm512_set1_ps(static_cast<float>(kInt8AmxMax));
  const __m512 inverse = _mm512_maskz_div_ps(some, most, largest);
  const int64_t rows = l.WeightRows(group);
  char* p = l.p + l.Group(query, group) * Int8AmxLayout::kWeightBytes;
  for (int64_t first = 0; first < seen; first += kInt8Depth) {
    StoreWeights(s + first * kBf16Lanes, seen - first, inverse, rows, p + first);
  }
  const __m512 shrink = Exp2(_mm512_sub_ps(old, shift));
  _mm512_storeu_ps(l.sum + at, _mm512_fmadd_ps(_mm512_loadu_ps(l.sum + at), shrink, sum));
  _mm512_storeu_ps(l.max + at, max);
  _mm512_storeu_ps(l.shrink + at, shrink);
  _mm512_storeu_ps(l.factor + at, _mm512_maskz_div_ps(some, largest, most));
}

}  // namespace latent_int8
}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_INT8_SOFTMAX_H_
