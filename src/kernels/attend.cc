#include "kernels/attend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/pack-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

// Scores of MR query rows from `row` on against t keys, width elements of each
// from `q_begin` on; added to what is there with `accumulate`.
template <int MR, class T>
void ScoreRows(const AttendTileArgs& g, const T* k, int64_t stride, int64_t q_begin, int64_t width,
               bool accumulate, int64_t row, int64_t t, Prefetcher& prefetcher) {
  constexpr int kNr = MR == 1 ? kSingleRowColumns : kColumns;
  const float* q[MR];
  for (int i = 0; i < MR; ++i) q[i] = g.q + (row + i) * g.q_stride + q_begin;
  float* s = g.scratch + row * kAttendTileRows;
  int64_t key = 0;
  const auto sink = [&](int i, int j, float sum) {
    float* at = s + i * kAttendTileRows + key + j;
    *at = accumulate ? *at + sum : sum;
  };
  for (; key + kNr <= t; key += kNr) {
    prefetcher.Next();
    DotTile<MR, kNr>(q, k + key * stride, stride, width, sink);
  }
  for (; key < t; ++key) DotTile<MR, 1>(q, k + key * stride, stride, width, sink);
}

void Scores(const AttendTileArgs& g, const void* keys, Elem type, int64_t stride, int64_t q_begin,
            int64_t width, bool accumulate, int64_t t, Prefetcher& prefetcher) {
  WithElem(type, keys, [&](const auto* k) {
    ForEachRowBlock(g.m, [&](auto rows, int64_t i) {
      ScoreRows<rows()>(g, k, stride, q_begin, width, accumulate, i, t, prefetcher);
    });
  });
}

// Many query rows: keys become fp32 columns once, so that a score is a chain of multiply-adds with
// keys as lanes and no horizontal step.
inline constexpr int64_t kPackedFrom = 32;
inline constexpr int64_t kMostPackedWidth = 256;
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || \
    HWY_TARGET == HWY_EMU128
inline constexpr int kPackedTileRows = 6;
#else
inline constexpr int kPackedTileRows = 12;
#endif

template <int MR, int NV>
HWY_INLINE void PackedScores(const float* HWY_RESTRICT q, int64_t q_stride,
                             const float* HWY_RESTRICT k, int64_t width, float* HWY_RESTRICT s) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VF acc[MR][NV];
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NV; ++j) acc[i][j] = hn::Zero(d);
  }
  for (int64_t x = 0; x < width; ++x) {
    VF kv[NV];
    for (int j = 0; j < NV; ++j) kv[j] = hn::LoadU(d, k + x * kAttendTileRows + j * lanes);
    for (int i = 0; i < MR; ++i) {
      const VF qv = InRegister(hn::Set(d, q[i * q_stride + x]));
      for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(qv, kv[j], acc[i][j]);
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NV; ++j) hn::StoreU(acc[i][j], d, s + i * kAttendTileRows + j * lanes);
  }
}

// All scores of the tile; what lies beyond key t within its last vector is 0.
void ScoresOfPacked(const AttendTileArgs& g, int64_t t) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DF()));
  const int64_t padded = (t + lanes - 1) / lanes * lanes;
  HWY_ALIGN float keys[kMostPackedWidth * kAttendTileRows];
  const auto pack = [&](Elem type, const void* data, int64_t stride, int64_t width, float* to) {
    WithElem(type, data, [&](const auto* k) {
      using T = std::remove_const_t<std::remove_pointer_t<decltype(k)>>;
      PackTransposed<T>([&](int64_t r) { return k + r * stride; }, t, padded, width,
                        [&](int64_t x, int64_t y) { return to + (x + y) * kAttendTileRows; });
    });
  };
  pack(g.type, g.k, g.k_stride, g.dk, keys);
  if (g.dr > 0) pack(g.rope_type, g.k_rope, g.k_rope_stride, g.dr, keys + g.dk * kAttendTileRows);
  const int64_t width = g.dk + g.dr;
  ForEachRowBlock<kPackedTileRows>(g.m, [&](auto rows, int64_t i) {
    const float* q = g.q + i * g.q_stride;
    float* s = g.scratch + i * kAttendTileRows;
    int64_t key = 0;
    for (; key + 2 * lanes <= padded; key += 2 * lanes) {
      PackedScores<rows(), 2>(q, g.q_stride, keys + key, width, s + key);
    }
    if (key < padded) PackedScores<rows(), 1>(q, g.q_stride, keys + key, width, s + key);
  });
}

// Highway's Exp gives 0 for NaN, which would hide a broken key.
HWY_INLINE VF ExpKeepNaN(DF d, VF x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x)); }

// Turns the scores s[0, visible) of one query row into exp(s - new max), zeroes s[visible, t), and
// returns the factor by which the row's earlier sum and acc shrink.
float SoftmaxRow(float* s, int64_t visible, int64_t t, float* max, float* sum) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  VF vmax = hn::Set(d, kNone);
  int64_t x = 0;
  for (; x + lanes <= visible; x += lanes) vmax = hn::Max(vmax, hn::LoadU(d, s + x));
  float best = hn::GetLane(hn::MaxOfLanes(d, vmax));
  for (; x < visible; ++x) best = std::max(best, s[x]);
  const float new_max = std::max(*max, best);
  for (int64_t y = visible; y < t; ++y) s[y] = 0;
  if (new_max == kNone) {
    // Only -inf and NaN: the former weigh nothing, the latter must reach the output.
    for (int64_t y = 0; y < visible; ++y) *sum += s[y] = s[y] == kNone ? 0.0f : s[y];
    return 1;
  }
  const VF shift = hn::Set(d, new_max);
  VF vsum = hn::Zero(d);
  // The tail goes through a padded copy: no invisible score may enter the sum.
  for (x = 0; x + lanes <= visible; x += lanes) {
    const VF p = ExpKeepNaN(d, hn::Sub(hn::LoadU(d, s + x), shift));
    hn::StoreU(p, d, s + x);
    vsum = hn::Add(vsum, p);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, vsum));
  if (x < visible) {
    float tail[HWY_MAX_BYTES / sizeof(float)];
    for (int64_t y = 0; y < lanes; ++y) tail[y] = x + y < visible ? s[x + y] : new_max;
    hn::StoreU(ExpKeepNaN(d, hn::Sub(hn::LoadU(d, tail), shift)), d, tail);
    for (int64_t y = x; y < visible; ++y) {
      s[y] = tail[y - x];
      total += s[y];
    }
  }
  const float shrink = *max == kNone ? 0.0f : std::exp(*max - new_max);
  *sum = *sum * shrink + total;
  *max = new_max;
  return shrink;
}

// Softmax of MR query rows from `row` on, and their share of the output.
template <int MR, class T>
void OutputRows(const AttendTileArgs& g, const T* v, int64_t row, int64_t t) {
  float* p = g.scratch + row * kAttendTileRows;
  float* acc = g.acc + row * g.acc_stride;
  int64_t seen[MR];
  float shrink[MR];
  int64_t shared = t;
  for (int r = 0; r < MR; ++r) {
    seen[r] = g.visible != nullptr ? g.visible[row + r] : t;
    shared = std::min(shared, seen[r]);
    shrink[r] = SoftmaxRow(p + r * kAttendTileRows, seen[r], t, g.max + row + r, g.sum + row + r);
  }
  OuterRows<MR>(p, kAttendTileRows, v, g.v_stride, shared, shrink, false, acc, g.acc_stride, g.dv);
  // Keys that only some of the rows see go row by row: a weight of 0 would not keep a NaN or
  // infinity of a later token out.
  for (int r = 0; r < MR; ++r) {
    if (seen[r] == shared) continue;
    OuterRows<1>(p + r * kAttendTileRows + shared, kAttendTileRows, v + shared * g.v_stride,
                 g.v_stride, seen[r] - shared, nullptr, false, acc + r * g.acc_stride, g.acc_stride,
                 g.dv);
  }
}

void Attend(const AttendTileArgs& g) {
  int64_t t = g.t;
  if (g.visible != nullptr) {
    t = 0;
    for (int64_t i = 0; i < g.m; ++i) t = std::max<int64_t>(t, g.visible[i]);
  }
  if (t == 0) return;
  const int64_t products = (g.m + kRows - 1) / kRows * (t / kColumns + 1);
  Prefetcher prefetcher(g.prefetch, g.prefetch_bytes, products);
  if (g.m >= kPackedFrom && g.dk + g.dr <= kMostPackedWidth) {
    ScoresOfPacked(g, t);
  } else {
    Scores(g, g.k, g.type, g.k_stride, 0, g.dk, false, t, prefetcher);
    if (g.dr > 0) {
      Scores(g, g.k_rope, g.rope_type, g.k_rope_stride, g.dk, g.dr, true, t, prefetcher);
    }
  }
  WithElem(g.type, g.v, [&](const auto* v) {
    ForEachRowBlock(g.m, [&](auto rows, int64_t i) { OutputRows<rows()>(g, v, i, t); });
  });
}

void Finish(const AttendFinishArgs& g) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < g.m; ++i) {
    // sum is 0 only for a row that saw no key; NaN must stay visible.
    const bool seen = !(g.sum[i] == 0.0f);
    const float inverse = seen ? 1.0f / g.sum[i] : 0.0f;
    const float* acc = g.acc + i * g.acc_stride;
    float* out = g.out + i * g.out_stride;
    int64_t x = 0;
    for (; x + lanes <= g.dv; x += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, acc + x), hn::Set(d, inverse)), d, out + x);
    }
    for (; x < g.dv; ++x) out[x] = acc[x] * inverse;
    if (g.lse != nullptr) {
      g.lse[i] =
          seen ? std::log2(g.sum[i]) + g.max[i] * kLog2E : -std::numeric_limits<float>::infinity();
    }
  }
}

void Merge(const MergeArgs& g) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const int32_t begin = g.indptr[g.output];
  const int32_t end = g.indptr[g.output + 1];
  float* out = g.v_out + (g.output * g.heads + g.head) * g.dim;
  float max = kNone;
  for (int32_t i = begin; i < end; ++i) {
    const float lse = g.lse_in[i * g.heads + g.head];
    if (lse > max) max = lse;  // false for NaN
  }
  std::fill(out, out + g.dim, 0.0f);
  float total = 0;
  if (max != kNone) {
    for (int32_t i = begin; i < end; ++i) {
      const float lse = g.lse_in[i * g.heads + g.head];
      if (!(lse > kNone)) continue;
      const float w = std::exp2(lse - max);
      const float* v = g.v_in + (static_cast<int64_t>(i) * g.heads + g.head) * g.dim;
      total += w;
      int64_t x = 0;
      for (; x + lanes <= g.dim; x += lanes) {
        hn::StoreU(hn::MulAdd(hn::Set(d, w), hn::LoadU(d, v + x), hn::LoadU(d, out + x)), d,
                   out + x);
      }
      for (; x < g.dim; ++x) out[x] += w * v[x];
    }
    for (int64_t x = 0; x < g.dim; ++x) out[x] /= total;
  }
  if (g.lse_out != nullptr) {
    g.lse_out[g.output * g.heads + g.head] = max == kNone ? kNone : max + std::log2(total);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {

HWY_EXPORT(Attend);
HWY_EXPORT(Finish);
HWY_EXPORT(Merge);

void AttendTile(const AttendTileArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(Attend)(args); }
void AttendFinish(const AttendFinishArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(Finish)(args); }
void MergeStates(const MergeArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(Merge)(args); }

}  // namespace mla
#endif  // HWY_ONCE
