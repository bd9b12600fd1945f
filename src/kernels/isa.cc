#include "kernels/isa.h"

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/isa.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {
int64_t RunningTarget() { return HWY_TARGET; }
}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {
namespace {

HWY_EXPORT(RunningTarget);

struct Name {
  int64_t target;
  const char* name;
};

// Best first. Highway calls AVX-512 (F, BW, CD, DQ, VL) "AVX3".
constexpr Name kNames[] = {
    {HWY_AVX3_DL, "avx512_dl"}, {HWY_AVX3, "avx512"},   {HWY_AVX2, "avx2"},
    {HWY_SSE4, "sse4"},         {HWY_SSSE3, "ssse3"},   {HWY_SVE2_128, "sve2_128"},
    {HWY_SVE_256, "sve_256"},   {HWY_SVE2, "sve2"},     {HWY_SVE, "sve"},
    {HWY_NEON, "neon"},         {HWY_RVV, "rvv"},       {HWY_PPC8, "ppc8"},
    {HWY_EMU128, "emu128"},     {HWY_SCALAR, "scalar"},
};

// What the machine supports, whatever is forced at the moment.
int64_t Detected() {
  static const int64_t detected = [] {
    hwy::SetSupportedTargetsForTest(0);
    return hwy::SupportedTargets();
  }();
  return detected;
}

}  // namespace

std::vector<Isa> CompiledIsas() {
  std::vector<Isa> isas;
  const int64_t detected = Detected();
  for (const Name& n : kNames) {
    if ((HWY_TARGETS & n.target) != 0) isas.push_back({n.name, (detected & n.target) != 0});
  }
  return isas;
}

std::string ChosenIsa() {
  const int64_t target = HWY_DYNAMIC_DISPATCH(RunningTarget)();
  for (const Name& n : kNames) {
    if (n.target == target) return n.name;
  }
  return "unknown";
}

void ForceIsaByName(const std::string& name) {
  const int64_t detected = Detected();
  int64_t target = 0;
  std::string choices;
  for (const Name& n : kNames) {
    if ((HWY_TARGETS & detected & n.target) == 0) continue;
    if (name == n.name) target = n.target;
    choices += (choices.empty() ? "" : ", ") + std::string(n.name);
  }
  if (target == 0 && !name.empty()) {
    Fail(ErrorCode::kUsage, "ISA '{}' is not available; this machine and build have: {}", name,
         choices);
  }
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace mla
#endif  // HWY_ONCE
