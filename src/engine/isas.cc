// The public view of kernels/isa.h, with the reason for the choice.
#include "engine/isas.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>

#include "base/check.h"
#include "engine/machine_probe.h"
#include "kernels/isa.h"
#include "kernels/latent_unit.h"
#include "mla/engine.h"

namespace mla {
namespace {

// Names beside those of kernels/isa.h: an ISA, with a unit for bf16 latents.
struct UnitName {
  const char* name;
  const char* isa;
  DotUnit unit;
};
constexpr UnitName kUnitNames[] = {{"amx", "avx512", DotUnit::kAmxBf16},
                                   {"avx512_bf16", "avx512", DotUnit::kBf16Dot}};

const UnitName* FindUnit(const std::string& name) {
  const auto* found = std::find_if(std::begin(kUnitNames), std::end(kUnitNames),
                                   [&](const UnitName& n) { return name == n.name; });
  return found == std::end(kUnitNames) ? nullptr : found;
}

[[noreturn]] void Refuse(const UnitName& name, const std::string& why) {
  Fail(ErrorCode::kUsage,
       "ISA '{}' is not usable: {}; expected one that works in every thread, as mla bench peaks "
       "shows; use {} instead, or no name for the best",
       name.name, why, name.isa);
}

struct Choice {
  std::mutex mutex;
  std::string reason;              // empty: nothing chosen yet
  const UnitName* unit = nullptr;  // forced together with an ISA
  bool forced = false;
};

// Changes nothing if it throws.
void ForceName(Choice& choice, const std::string& name) {
  const UnitName* unit = FindUnit(name);
  if (unit != nullptr) {
    const std::string why_not = TryDotUnit(unit->unit);
    if (!why_not.empty()) Refuse(*unit, why_not);
  }
  ForceIsaByName(unit != nullptr ? unit->isa : name);
  SetLatentUnit(unit != nullptr ? unit->unit : DotUnit::kFma);
  choice.unit = unit;
  choice.forced = !name.empty();
}

Choice& TheChoice() {
  static Choice choice;
  return choice;
}

void Choose(Choice& choice, const std::string& name) {
  const char* variable = std::getenv("MLA_ISA");
  if (!name.empty()) {
    ForceName(choice, name);
    choice.reason = "forced by --isa";
  } else if (variable != nullptr && *variable != '\0') {
    try {
      ForceName(choice, variable);
    } catch (const Error& e) {
      throw Error(e.code(), std::string("environment variable MLA_ISA: ") + e.what());
    }
    choice.reason = "forced by MLA_ISA";
  } else {
    ForceName(choice, "");
    choice.reason = "best detected";
  }
}

}  // namespace

void EnsureIsaChosen() {
  Choice& choice = TheChoice();
  std::lock_guard<std::mutex> lock(choice.mutex);
  if (choice.reason.empty()) Choose(choice, "");
}

std::string IsaInUse() {
  std::lock_guard<std::mutex> lock(TheChoice().mutex);
  return TheChoice().unit != nullptr ? TheChoice().unit->name : ChosenIsa();
}

void ChooseLatentUnit(ThreadPool& pool, Compute compute, const LogSink& log) {
  Choice& choice = TheChoice();
  std::lock_guard<std::mutex> lock(choice.mutex);
  const bool none_but_fma =
      std::none_of(std::begin(kUnitNames), std::end(kUnitNames),
                   [](const UnitName& n) { return DetectDotUnit(n.unit).named; });
  if (compute == Compute::kF32 || none_but_fma || (choice.forced && choice.unit == nullptr)) {
    SetLatentUnit(DotUnit::kFma);
    return;
  }
  const MachineProbe& probe = ProbeMachine(pool);
  LogRemark(probe, log);
  if (choice.unit == nullptr) {
    SetLatentUnit(probe.BestUnit(LatentKind::k16Bit).value_or(DotUnit::kFma));
    return;
  }
  for (const UnitProbe& unit : probe.units) {
    if (unit.unit == choice.unit->unit && !unit.usable) Refuse(*choice.unit, unit.why_not);
  }
  SetLatentUnit(choice.unit->unit);
}

void ForceIsa(const std::string& name) {
  Choice& choice = TheChoice();
  std::lock_guard<std::mutex> lock(choice.mutex);
  Choose(choice, name);
}

std::vector<IsaInfo> Isas() {
  std::vector<IsaInfo> isas;
  IsaReason();  // looks at MLA_ISA
  const std::string chosen = IsaInUse();
#if defined(__x86_64__)
  for (const UnitName& n : kUnitNames) {
    isas.push_back({n.name, DetectDotUnit(n.unit).detected(), n.name == chosen});
  }
#endif
  for (const Isa& isa : CompiledIsas()) {
    isas.push_back({isa.name, isa.detected, isa.name == chosen});
  }
  return isas;
}

std::string IsaReason() {
  try {
    EnsureIsaChosen();
  } catch (const Error& e) {
    // Loading a model will refuse; listing what there is must not.
    return e.what();
  }
  std::lock_guard<std::mutex> lock(TheChoice().mutex);
  return TheChoice().reason;
}

}  // namespace mla
