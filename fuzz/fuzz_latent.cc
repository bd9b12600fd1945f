// Fuzzes the latent kernels: shapes, lengths, storage types and broken values drawn from the input,
// every instruction set and unit of the machine against the answer in double, NaN and infinity
// first. Called by: libFuzzer. Thread-safety: one thread.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "input.h"
#include "kernels/isa.h"
#include "kernels/latent_unit.h"
#include "support/latent_case.h"

namespace mla {
namespace {

[[noreturn]] void Report(const LatentShape& s, const std::string& isa, const char* what, size_t at,
                         double got, double want, double bound) {
  std::cerr << isa << ": " << what << " of element " << at << " is " << got << ", expected " << want
            << " within " << bound << "; " << s << "\n";
  std::abort();
}

// Zeros, infinities and NaN must be where they are in the answer; the rest within the bound.
void Compare(const LatentShape& s, const std::string& isa, const char* what,
             const std::vector<float>& got, const std::vector<double>& want, double bound) {
  for (size_t i = 0; i < want.size(); ++i) {
    const double g = got[i];
    const double w = want[i];
    if (std::isnan(w) != std::isnan(g)) Report(s, isa, what, i, g, w, bound);
    if (std::isnan(w)) continue;
    if (std::isinf(w) || std::isinf(g)) {
      if (g != w) Report(s, isa, what, i, g, w, bound);
      continue;
    }
    if (!(std::abs(g - w) <= bound * (1 + (*what == 'l' ? std::abs(w) : 0)))) {
      Report(s, isa, what, i, g, w, bound);
    }
  }
}

struct Bounds {
  double out, lse;  // as in LatentInt8Bounds
};

// tests/kernels/latent_bf16_test.cc has the derivation for the units of bf16.
Bounds BoundsOf(const LatentCase& c, const LatentCase::Exact& want, DotUnit unit) {
  if (c.s.type == Elem::kInt8) {
    const LatentInt8Bounds b =
        unit == DotUnit::kAmxInt8 ? Int8AmxBounds(c, want) : Int8VectorBounds(c, want);
    return {b.out, b.lse};
  }
  const double fp32 = LatentFp32Bound(c.s, want);
  if (unit == DotUnit::kFma) return {fp32, 2 * fp32};
  const double scores = fp32 + std::ldexp(want.score_norm, -17);
  return {scores + std::ldexp(1.01, -8), 2 * (scores + std::ldexp(1.5, -9))};
}

void CheckOn(LatentCase& c, const LatentCase::Exact& want, const std::string& isa, DotUnit unit) {
  c.format.unit = unit;
  const std::string name = isa + " " + DotUnitName(unit);
  const Bounds bounds = BoundsOf(c, want, unit);
  const LatentResult got = c.Run(FastKernels());
  if (!c.intact) Report(c.s, name, "scratch", 0, 0, 0, 0);
  Compare(c.s, name, "lse", got.lse, want.lse, bounds.lse);
  Compare(c.s, name, "out", got.out, want.out, bounds.out * std::max(want.largest_value, 1e-30));
}

void Check(FuzzInput input) {
  LatentShape s;
  s.rows = 1 + input.Below(6);
  s.heads = 1 + input.Below(36);
  s.rank = 1 + input.Below(100);
  s.rope = 2 + 2 * input.Below(35);
  s.keys = 1 + input.Below(300);
  s.first = input.Below(300);
  const Elem types[] = {Elem::kF32, Elem::kF16, Elem::kBf16, Elem::kInt8};
  s.type = types[input.Below(4)];
  const bool f16_rope = s.type == Elem::kInt8 || (s.type == Elem::kBf16 && input.Below(2) == 0);
  s.rope_type = f16_rope ? Elem::kF16 : s.type;
  const double scales[] = {1, 0.01, 10, 100};
  s.score_scale = scales[input.Below(4)];
  LatentCase c(s, static_cast<uint64_t>(input.Below(1 << 16)));
  for (int64_t broken = input.Below(3); broken > 0; --broken) {
    const int64_t key = input.Below(s.keys);
    c.Value(key, input.Below(s.rank + s.rope)) = kNaN;
    c.PutRow(key);
  }
  const LatentCase::Exact want = c.Want();
  const LatentKind kind = s.type == Elem::kInt8 ? LatentKind::kInt8 : LatentKind::k16Bit;
  for (const Isa& isa : CompiledIsas()) {
    if (!isa.detected) continue;
    ForceIsaByName(isa.name);
    for (const DotUnit unit : kDotUnits) {
      const bool fits = LatentUnitServes(unit, kind) && DotUnitFitsIsa(unit, isa.name);
      const bool other = unit != DotUnit::kFma && s.type != Elem::kInt8 &&
                         !(s.type == Elem::kBf16 && s.rope_type == Elem::kF16);
      // Units that this format would not use are fp32 once more.
      if (fits && !other && TryDotUnit(unit).empty()) CheckOn(c, want, isa.name, unit);
    }
  }
}

}  // namespace
}  // namespace mla

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mla::Check({data, size});
  return 0;
}
