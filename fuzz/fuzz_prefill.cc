// Fuzzes the prefill kernel: shapes, lengths and broken values drawn from the input, products of
// every unit of the machine and on a model of the tiles against the answer in double. Called by:
// libFuzzer. Thread-safety: one thread.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "input.h"
#include "kernels/x86/dot_units.h"
#include "support/prefill_case.h"
#include "support/tile_model.h"

namespace mla {
namespace {

constexpr BlockProducts kModelProducts = AmxProduct<ModelTiles>::Products();

void CheckOn(PrefillCase& c, const PrefillCase::Exact& want, const char* name,
             const BlockProducts& products) {
  const std::vector<float> got = c.Run(products);
  for (size_t i = 0; i < got.size(); ++i) {
    const double bound = want.bound[i / static_cast<size_t>(c.s.v_dim)];
    const bool both_nan = std::isnan(got[i]) && std::isnan(want.out[i]);
    if (c.intact && (both_nan || std::abs(got[i] - want.out[i]) <= bound)) continue;
    std::cerr << name << (c.intact ? "" : ": wrote beyond its memory") << ": element " << i
              << " is " << got[i] << ", expected " << want.out[i] << " within " << bound << "; "
              << c.s << "\n";
    std::abort();
  }
}

void Check(FuzzInput input) {
  PrefillShape s;
  s.rows = 1 + input.Below(50);
  s.nope = 1 + input.Below(40);
  s.v_dim = 1 + input.Below(40);
  s.rank = 1 + input.Below(70);
  s.rope = 2 + 2 * input.Below(20);
  s.keys = 1 + input.Below(300);
  s.first = input.Below(300);
  if (input.Below(2) == 0) s.type = Elem::kInt8;
  const double scales[] = {1, 0.01, 10, 100};
  s.scale = scales[input.Below(4)];
  PrefillCase c(s, static_cast<uint64_t>(input.Below(1 << 16)));
  for (int64_t broken = input.Below(3); broken > 0; --broken) {
    const int64_t key = input.Below(s.keys);
    c.latent.Value(key, input.Below(s.rank + s.rope)) = kNaN;
    c.latent.PutRow(key);
  }
  const PrefillCase::Exact want = c.Want();
  if (!TryDotUnit(DotUnit::kBf16Dot).empty()) return;
  CheckOn(c, want, "bf16dot", *Bf16DotBlockProducts());
  CheckOn(c, want, "model", kModelProducts);
  if (TryDotUnit(DotUnit::kAmxBf16).empty()) CheckOn(c, want, "amx", *AmxBlockProducts());
}

}  // namespace
}  // namespace mla

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mla::Check({data, size});
  return 0;
}
