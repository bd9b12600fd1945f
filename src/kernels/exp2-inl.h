// 2^x for softmax weights. Re-included once per target.
// Called by: kernels/*.cc only. Thread-safety: pure functions.

// clang-format off
#if defined(MLA_KERNELS_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLA_KERNELS_EXP2_INL_H_
#undef MLA_KERNELS_EXP2_INL_H_
#else
#define MLA_KERNELS_EXP2_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

// 2^x for x <= 0 (or just above), NaN for NaN, 0 below -126.5. The polynomial is the minimax fit of
// degree 6 to 2^f on [-1/2, 1/2] with 1 at 0: 2e-9 off, so the result is within 1 ulp. Highway's
// own Exp gives 0 for NaN, which would hide a broken key, and wraps around far below zero.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> Exp2NotAboveZero(D d, hwy::HWY_NAMESPACE::Vec<D> x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  // Not Max: its result for NaN differs between instruction sets.
  const auto low = hn::Set(d, -127.0f);
  x = hn::IfThenElse(hn::Lt(x, low), low, x);
  const auto whole = hn::Round(x);
  const auto f = hn::Sub(x, whole);
  auto p = hn::Set(d, 0x1.41d334p-13f);
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.5f456ap-10f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.3b2dbcp-7f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.c6aed4p-5f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.ebfbdap-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.62e430p-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  // -127 gives exponent bits of zero, the number 0. NaN has no integer, and is in p already.
  const auto number = hn::IfThenElseZero(hn::Eq(whole, whole), whole);
  const auto exponent = hn::Add(hn::ConvertTo(di, number), hn::Set(di, 127));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#endif  // include guard toggled per target
