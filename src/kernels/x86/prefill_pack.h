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

/// 32 latent rows as bf16, and what each is multiplied with afterwards.
struct KeyRows {
  const char* data = nullptr;
  int64_t stride = 0;  // bytes
  alignas(64) float scale[kBf16Depth];
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

// Rows [first, first + 32) of the tile, in place where they are whole, else as copies with zeros
// around.
MLA_ZMM inline void FindRows(const PrefillTask& task, const PrefillLayout& l,
                             const LatentTileRows& tile, int64_t first, KeyRows& rows) {
  const LatentFormat& f = task.format;
  const char* data = static_cast<const char*>(tile.data) + first * f.row_bytes;
  const int64_t count = std::min(tile.count - first, kBf16Depth);
  const bool int8 = f.type == Elem::kInt8;
  std::fill(rows.scale, rows.scale + kBf16Depth, 1.0f);
  if (!int8 && count == kBf16Depth && f.rank % kBf16Depth == 0) {
    rows.data = data;
    rows.stride = f.row_bytes;
    return;
  }
  rows.stride = 2 * l.rank_steps * kBf16Depth;
  char* const copy = reinterpret_cast<char*>(l.rows_of_step);
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
  std::memset(copy + count * rows.stride, 0,
              static_cast<size_t>((kBf16Depth - count) * rows.stride));
}

// 32 columns of 32 up-projected keys, from fp32 sums [2 blocks of keys][2 blocks of columns].
MLA_ZMM inline void StoreKeys(const PrefillLayout& l, const KeyRows& rows, int64_t key_step,
                              int64_t step) {
  for (int64_t i = 0; i < kBf16Depth; ++i) {
    const float* sums = l.sums + i / kBf16Block * 2 * PrefillLayout::kPart + i % kBf16Block * 16;
    const __m512 scale = _mm512_set1_ps(rows.scale[i]);
    const __m512 first = _mm512_mul_ps(_mm512_loadu_ps(sums), scale);
    const __m512 second = _mm512_mul_ps(_mm512_loadu_ps(sums + PrefillLayout::kPart), scale);
    float* to = l.K(2 * key_step + i / kBf16Block) + step * PrefillLayout::kPart;
    _mm512_storeu_si512(to + i % kBf16Block * kBf16Lanes,
                        UpperHalves(zmm::RoundToBf16(first), zmm::RoundToBf16(second)));
  }
}

// k_rope of 32 keys, `count` of which there are, behind the other columns.
MLA_ZMM inline void StoreRope(const PrefillTask& task, const PrefillLayout& l, const char* data,
                              int64_t count, int64_t key_step) {
  const LatentFormat& f = task.format;
  const int64_t steps = l.steps - l.nope_steps;
  for (int64_t i = 0; i < kBf16Depth; ++i) {
    if (i < count) {
      zmm::SplitRopeRow(data + i * f.row_bytes + f.rope_offset, f.rope, steps * kBf16Pairs, l.rope);
    } else {
      std::fill(l.rope, l.rope + steps * kBf16Pairs, 0.0f);
    }
    float* to = l.K(2 * key_step + i / kBf16Block) + l.nope_steps * PrefillLayout::kPart +
                i % kBf16Block * kBf16Lanes;
    for (int64_t step = 0; step < steps; ++step) {
      _mm512_storeu_ps(to + step * PrefillLayout::kPart,
                       _mm512_loadu_ps(l.rope + step * kBf16Pairs));
    }
  }
}

// 16 columns of the values of 32 keys, from the sums of column block `of_two`. False if one of them
// is not finite.
MLA_ZMM inline bool StoreValues(const PrefillLayout& l, const KeyRows& rows, int64_t key_step,
                                int64_t block, int64_t of_two) {
  constexpr int kNotFinite = 0x99;
  __m512i pairs[16];
  __mmask16 odd = 0;
  for (int64_t i = 0; i < 16; ++i) {
    __m512i value[2];
    for (int64_t k = 0; k < 2; ++k) {
      const int64_t key = 2 * i + k;
      const float* sums = l.sums + (key / kBf16Block * 2 + of_two) * PrefillLayout::kPart +
                          key % kBf16Block * kBf16Lanes;
      value[k] =
          zmm::RoundToBf16(_mm512_mul_ps(_mm512_loadu_ps(sums), _mm512_set1_ps(rows.scale[key])));
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
