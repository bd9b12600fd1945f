// Fuzzes the latent kernels: shapes, lengths, storage types and broken values drawn from the input,
// every instruction set of the machine against the answer in double, NaN and infinity first.
// Called by: libFuzzer. Thread-safety: one thread.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "support/latent_case.h"

namespace mla {
namespace {

// Numbers out of the input's bytes; zeros once they are used up.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  int64_t Below(int64_t n) {
    uint32_t value = 0;
    for (int i = 0; i < 2; ++i) value = value << 8 | (at_ < size_ ? data_[at_++] : 0u);
    return static_cast<int64_t>(value) % n;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

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

void Check(Input input) {
  LatentShape s;
  s.rows = 1 + input.Below(6);
  s.heads = 1 + input.Below(36);
  s.rank = 1 + input.Below(100);
  s.rope = 2 + 2 * input.Below(35);
  s.keys = 1 + input.Below(140);
  s.first = input.Below(100);
  s.type = static_cast<Elem>(input.Below(3));
  s.rope_type = s.type == Elem::kBf16 && input.Below(2) == 0 ? Elem::kF16 : s.type;
  const double scales[] = {1, 0.01, 10, 100};
  s.score_scale = scales[input.Below(4)];
  LatentCase c(s, static_cast<uint64_t>(input.Below(1 << 16)));
  for (int64_t broken = input.Below(3); broken > 0; --broken) {
    const int64_t key = input.Below(s.keys);
    c.Value(key, input.Below(s.rank + s.rope)) = kNaN;
    c.PutRow(key);
  }
  const LatentCase::Exact want = c.Want();
  const double bound = LatentFp32Bound(s, want);
  const double largest = std::max(want.largest_value, 1e-30);
  for (const Isa& isa : CompiledIsas()) {
    if (!isa.detected) continue;
    ForceIsaByName(isa.name);
    const LatentResult got = c.Run(FastKernels());
    if (!c.intact) Report(s, isa.name, "scratch", 0, 0, 0, 0);
    Compare(s, isa.name, "lse", got.lse, want.lse, 2 * bound);
    Compare(s, isa.name, "out", got.out, want.out, bound * largest);
  }
}

}  // namespace
}  // namespace mla

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mla::Check({data, size});
  return 0;
}
