#include "kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

template <int MR, class T>
void NtRows(const MatmulArgs& g, const T* b, int64_t row) {
  constexpr int kNr = MR == 1 ? kSingleRowColumns : kColumns;
  const float* a[MR];
  for (int i = 0; i < MR; ++i) {
    a[i] = g.a + (g.a_rows != nullptr ? g.a_rows[row + i] : row + i) * g.a_stride;
  }
  float* c = g.c + row * g.c_stride;
  int64_t column = 0;
  const auto sink = [&](int i, int j, float sum) {
    float* at = c + i * g.c_stride + column + j;
    if (g.bias != nullptr) sum += g.bias[column + j];
    *at = g.accumulate ? *at + sum : sum;
  };
  for (; column + kNr <= g.n; column += kNr) {
    DotTile<MR, kNr>(a, b + column * g.b_stride, g.b_stride, g.k, sink);
  }
  for (; column < g.n; ++column) {
    DotTile<MR, 1>(a, b + column * g.b_stride, g.b_stride, g.k, sink);
  }
}

void Nt(const MatmulArgs& g) {
  WithElem(g.b_type, g.b, [&](const auto* b) {
    ForEachRowBlock(g.m, [&](auto rows, int64_t i) { NtRows<rows()>(g, b, i); });
  });
}

template <int MR, class T>
void NnRows(const MatmulArgs& g, const T* b, int64_t row) {
  float* c = g.c + row * g.c_stride;
  OuterRows<MR>(g.a + row * g.a_stride, g.a_stride, b, g.b_stride, g.k, nullptr, !g.accumulate, c,
                g.c_stride, g.n);
  if (g.bias == nullptr) return;
  for (int i = 0; i < MR; ++i) {
    for (int64_t x = 0; x < g.n; ++x) c[i * g.c_stride + x] += g.bias[x];
  }
}

void Nn(const MatmulArgs& g) {
  WithElem(g.b_type, g.b, [&](const auto* b) {
    ForEachRowBlock(g.m, [&](auto rows, int64_t i) { NnRows<rows()>(g, b, i); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {

HWY_EXPORT(Nt);
HWY_EXPORT(Nn);

void MatmulNt(const MatmulArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(Nt)(args); }
void MatmulNn(const MatmulArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(Nn)(args); }

}  // namespace mla
#endif  // HWY_ONCE
