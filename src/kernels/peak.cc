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

// Two ports with a latency of 4 or 5 cycles need 10 independent sums; 12 and the two operands still
// fit into 16 registers.
constexpr int kSums = 12;

int64_t Fma(int64_t rounds, float* sink) {
  const DF d;
  // The sums converge to 1: neither overflow nor denormals slow the loop down.
  const VF factor = hn::Set(d, 0.5f);
  const VF term = hn::Set(d, 0.5f);
  VF sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(d, static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) sums[i] = hn::MulAdd(sums[i], factor, term);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  *sink = hn::GetLane(hn::SumOfLanes(d, sums[0]));
  return rounds * kSums * static_cast<int64_t>(hn::Lanes(d)) * 2;
}

float Read(const float* HWY_RESTRICT data, int64_t count) {
  constexpr int kStreams = 8;
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VF sums[kStreams];
  for (int i = 0; i < kStreams; ++i) sums[i] = hn::Zero(d);
  int64_t x = 0;
  for (; x + kStreams * lanes <= count; x += kStreams * lanes) {
    for (int i = 0; i < kStreams; ++i)
      sums[i] = hn::Add(sums[i], hn::LoadU(d, data + x + i * lanes));
  }
  for (int i = 1; i < kStreams; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  float total = hn::GetLane(hn::SumOfLanes(d, sums[0]));
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
