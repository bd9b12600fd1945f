// Operands of prefill: weights, latent rows, keys and values in the layout of the tile products, in
// AVX-512.
// Called by: prefill_bf16.cc only, on x86-64. Thread-safety: pure functions on their arguments.
#ifndef MLA_KERNELS_X86_PREFILL_PACK_H_
#define MLA_KERNELS_X86_PREFILL_PACK_H_

#include <cstring>

#include "kernels/latent_int8.h"
#include "kernels/x86/latent_zmm.h"
#include "kernels/x86/prefill_layout.h"

namespace mla {
namespace prefill {

/// A run of latent rows as bf16, and what each is multiplied with afterwards.
struct KeyRows {
  const char* data = nullptr;
  int64_t stride = 0;  // bytes
  alignas(64) float scale[PrefillLayout::kRunRows];
};

// 32 numbers whose upper halves are bf16, side by side.
MLA_ZMM_INLINE __m512i UpperHalves(__m512i first, __m512i second) {
  const __m512i odd =
      _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                       25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_permutex2var_epi16(first, odd, second);
}

inline uint32_t FirstOf32(int64_t count) {
  return count >= 32 ? 0xffffffffu : (uint32_t{1} << std::max<int64_t>(count, 0)) - 1;
}

// 16 rows of a weight, `count` of which there are, as second operand: pairs of columns, lanes are
// rows.
MLA_ZMM inline void PackWeightRows(const char* rows, int64_t stride, int64_t count, int64_t rank,
                                   float* to) {
  for (int64_t column = 0; column < rank; column += kBf16Depth, to += kBf16TileFloats) {
    const __mmask32 mask = FirstOf32(rank - column);
    __m512i r[16];
    for (int64_t i = 0; i < 16; ++i) {
      r[i] = i < count ? _mm512_maskz_loadu_epi16(mask, rows + i * stride + 2 * column)
                       : _mm512_setzero_si512();
    }
    zmm::Transpose(r);
    for (int64_t i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * kBf16Lanes, r[i]);
  }
}

MLA_ZMM_INLINE __m512i Int8ToFloat(__m128i x) {
  return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x)));
}
// Exact.
MLA_ZMM_INLINE __m512i Int8ToBf16(__m256i x) {
  return UpperHalves(Int8ToFloat(_mm256_castsi256_si128(x)),
                     Int8ToFloat(_mm256_extracti128_si256(x, 1)));
}

// Rows of the tile from `first` on, in place where they are whole, else as copies with zeros
// around.
MLA_ZMM inline void FindRows(const PrefillTask& task, const PrefillLayout& l,
                             const LatentTileRows& tile, int64_t first, KeyRows& rows) {
  constexpr int64_t kRun = PrefillLayout::kRunRows;
  const LatentFormat& f = task.format;
  const char* data = static_cast<const char*>(tile.data) + first * f.row_bytes;
  const int64_t count = std::min(tile.count - first, kRun);
  const bool int8 = f.type == Elem::kInt8;
  std::fill(rows.scale, rows.scale + kRun, 1.0f);
  if (!int8 && count == kRun && f.rank % kBf16Depth == 0) {
    rows.data = data;
    rows.stride = f.row_bytes;
    return;
  }
  rows.stride = 2 * l.rank_steps * kBf16Depth;
  char* const copy = reinterpret_cast<char*>(l.run_rows);
  rows.data = copy;
  for (int64_t i = 0; i < count; ++i, data += f.row_bytes) {
    if (int8) std::memcpy(rows.scale + i, data + Int8ScaleOffset(f.rank), sizeof(float));
    for (int64_t x = 0; x < f.rank; x += kBf16Depth) {
      const __mmask32 mask = FirstOf32(f.rank - x);
      const __m512i bf16 = int8 ? Int8ToBf16(_mm256_maskz_loadu_epi8(mask, data + x))
                                : _mm512_maskz_loadu_epi16(mask, data + 2 * x);
      _mm512_storeu_si512(copy + i * rows.stride + 2 * x, bf16);
    }
  }
  std::memset(copy + count * rows.stride, 0, static_cast<size_t>((kRun - count) * rows.stride));
}

// Sums of the 16 columns of a block for key `key` of the run.
MLA_ZMM_INLINE __m512 ScaledSums(const PrefillLayout& l, const KeyRows& rows, int64_t block,
                                 int64_t key) {
  const float* sums = l.Sums(block) + key * kBf16Lanes;
  return _mm512_mul_ps(_mm512_loadu_ps(sums), _mm512_set1_ps(rows.scale[key]));
}

// Step `step` of the run's first `blocks` blocks of keys.
MLA_ZMM inline void StoreKeys(const PrefillLayout& l, const KeyRows& rows, int64_t first_block,
                              int64_t blocks, int64_t step) {
  for (int64_t key = 0; key < blocks * kBf16Block; ++key) {
    const __m512i low = zmm::RoundToBf16(ScaledSums(l, rows, 2 * step, key));
    const __m512i high = zmm::RoundToBf16(ScaledSums(l, rows, 2 * step + 1, key));
    float* to = l.K(first_block + key / kBf16Block) + step * PrefillLayout::kPart;
    _mm512_storeu_si512(to + key % kBf16Block * kBf16Lanes, UpperHalves(low, high));
  }
}

// The rotated part of one key, whose fp16 numbers are the sums of two bf16 ones exactly: 8 bits,
// then the other 3. The second is 0 for what is not finite.
MLA_ZMM inline void StoreRope(const PrefillLayout& l, const char* from, int64_t rope, float* to) {
  constexpr int kNotFinite = 0x99;
  for (int64_t step = 0; step < l.rope_steps; ++step) {
    __m512i high[2], low[2];
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t column = step * kBf16Depth + i * 16;
      const __mmask16 mask = zmm::FirstLanes(rope - column);
      const __m512 x = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from + 2 * column));
      high[i] = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(-0x10000));
      const auto finite = static_cast<__mmask16>(~_mm512_fpclass_ps_mask(x, kNotFinite));
      low[i] = _mm512_castps_si512(_mm512_maskz_sub_ps(finite, x, _mm512_castsi512_ps(high[i])));
    }
    _mm512_storeu_si512(to + (l.nope_steps + step) * PrefillLayout::kPart,
                        UpperHalves(high[0], high[1]));
    _mm512_storeu_si512(to + (l.steps + step) * PrefillLayout::kPart, UpperHalves(low[0], low[1]));
  }
}

MLA_ZMM inline void StoreRopes(const PrefillTask& task, const PrefillLayout& l,
                               const LatentTileRows& tile) {
  const LatentFormat& f = task.format;
  const char* from = static_cast<const char*>(tile.data) + f.rope_offset;
  const int64_t keys = PrefillLayout::Up(tile.count, kBf16Depth) * kBf16Depth;
  for (int64_t key = 0; key < keys; ++key) {
    float* to = l.K(key / kBf16Block) + key % kBf16Block * kBf16Lanes;
    // The last one's, of no columns, for those behind it.
    const int64_t row = std::min(key, tile.count - 1);
    StoreRope(l, from + row * f.row_bytes, key < tile.count ? f.rope : 0, to);
  }
}

// Column block `block` of the values of 32 keys, of the run's first or second half. False if one of
// them is not finite.
MLA_ZMM inline bool StoreValues(const PrefillLayout& l, const KeyRows& rows, int64_t key_step,
                                int64_t half, int64_t block) {
  constexpr int kNotFinite = 0x99;
  __m512i pairs[16];
  __mmask16 odd = 0;
  for (int64_t i = 0; i < 16; ++i) {
    __m512i value[2];
    for (int64_t k = 0; k < 2; ++k) {
      const int64_t key = half * kBf16Depth + 2 * i + k;
      value[k] = zmm::RoundToBf16(ScaledSums(l, rows, 2 * l.nope_steps + block, key));
      odd |= _mm512_fpclass_ps_mask(_mm512_castsi512_ps(value[k]), kNotFinite);
    }
    pairs[i] = zmm::Pair(value[0], value[1]);
  }
  zmm::Transpose(pairs);
  float* to = l.v + l.V(block) + key_step * PrefillLayout::kPart;
  for (int64_t i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * kBf16Pairs, pairs[i]);
  return odd == 0;
}

}  // namespace prefill
}  // namespace mla

#endif  // MLA_KERNELS_X86_PREFILL_PACK_H_
