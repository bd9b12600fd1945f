#include "kernels/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/peak.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

// The sums are variables of their own: an optimiser that leaves a loop over an array of them rolled
// would measure its stores.

int64_t Fma(int64_t rounds, float* sink) {
  // Two ports with a latency of 4 or 5 cycles need 10 independent sums; 12 and the operand still
  // fit into 16 registers.
  constexpr int64_t kSums = 12;
  const DF d;
  // s = s/2 + 1/2 converges to 1: neither overflow nor denormals slow the loop down.
  const VF half = hn::Set(d, 0.5f);
  // Starting values that differ: equal sums would be computed once.
  VF s0 = hn::Set(d, 0.0f), s1 = hn::Set(d, 2.0f), s2 = hn::Set(d, 3.0f), s3 = hn::Set(d, 4.0f);
  VF s4 = hn::Set(d, 5.0f), s5 = hn::Set(d, 6.0f), s6 = hn::Set(d, 7.0f), s7 = hn::Set(d, 8.0f);
  VF s8 = hn::Set(d, 9.0f), s9 = hn::Set(d, 10.0f), s10 = hn::Set(d, 11.0f),
     s11 = hn::Set(d, 12.0f);
  for (int64_t round = 0; round < rounds; ++round) {
    s0 = hn::MulAdd(s0, half, half);
    s1 = hn::MulAdd(s1, half, half);
    s2 = hn::MulAdd(s2, half, half);
    s3 = hn::MulAdd(s3, half, half);
    s4 = hn::MulAdd(s4, half, half);
    s5 = hn::MulAdd(s5, half, half);
    s6 = hn::MulAdd(s6, half, half);
    s7 = hn::MulAdd(s7, half, half);
    s8 = hn::MulAdd(s8, half, half);
    s9 = hn::MulAdd(s9, half, half);
    s10 = hn::MulAdd(s10, half, half);
    s11 = hn::MulAdd(s11, half, half);
  }
  const VF a = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  const VF b = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  const VF c = hn::Add(hn::Add(s8, s9), hn::Add(s10, s11));
  *sink = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), c)));
  return rounds * kSums * static_cast<int64_t>(hn::Lanes(d)) * 2;
}

float Read(const float* HWY_RESTRICT data, int64_t count) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VF s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t x = 0;
  for (; x + 4 * lanes <= count; x += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, data + x));
    s1 = hn::Add(s1, hn::LoadU(d, data + x + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, data + x + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, data + x + 3 * lanes));
  }
  float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; x < count; ++x) total += data[x];
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {

HWY_EXPORT(Fma);
HWY_EXPORT(Read);

int64_t FmaPeakLoop(int64_t rounds, float* sink) noexcept {
  return HWY_DYNAMIC_DISPATCH(Fma)(rounds, sink);
}
float ReadLoop(const float* data, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(Read)(data, count);
}

}  // namespace mla
#endif  // HWY_ONCE
