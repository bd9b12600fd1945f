// The public view of kernels/isa.h, with the reason for the choice.
#include "engine/isas.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <vector>

#include "base/check.h"
#include "engine/machine_probe.h"
#include "kernels/isa.h"
#include "kernels/latent_unit.h"
#include "mla/engine.h"

namespace mla {
namespace {

// Names beside those of kernels/isa.h: an ISA, with a unit for bf16 latents, and perhaps one for
// int8 latents (kFma: as with the ISA alone).
struct UnitName {
  const char* name;
  const char* isa;
  DotUnit unit;
  DotUnit int8_unit;
};
constexpr UnitName kUnitNames[] = {{"amx", "avx512", DotUnit::kAmxBf16, DotUnit::kAmxInt8},
                                   {"avx512_bf16", "avx512", DotUnit::kBf16Dot, DotUnit::kFma}};

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

// kFma would take the place of the other kind's unit too.
void Use(LatentUnits& units, DotUnit unit) {
  if (unit != DotUnit::kFma) units.Use(unit);
}

const UnitProbe& Find(const MachineProbe& probe, DotUnit unit) {
  return *std::find_if(probe.units.begin(), probe.units.end(),
                       [&](const UnitProbe& u) { return u.unit == unit; });
}

// The vector unit for int8 latents that goes with the ISA: there are kernels for its own width
// only.
DotUnit VnniUnit(const MachineProbe& probe) {
  for (const DotUnit unit : {DotUnit::kVnni512, DotUnit::kVnni256}) {
    if (Find(probe, unit).usable && DotUnitFitsIsa(unit, probe.isa)) return unit;
  }
  return DotUnit::kFma;
}

// Every name that this machine can be asked for.
std::string Available() {
  std::string names;
  const auto add = [&](bool usable, const std::string& name) {
    if (usable) names += (names.empty() ? "" : ", ") + name;
  };
  for (const UnitName& n : kUnitNames) add(DetectDotUnit(n.unit).detected(), n.name);
  for (const Isa& isa : CompiledIsas()) add(isa.detected, isa.name);
  return names;
}

// Changes nothing if it throws.
void ForceName(Choice& choice, const std::string& name) {
  const UnitName* unit = FindUnit(name);
  const std::vector<Isa> isas = CompiledIsas();
  const bool known = unit != nullptr || name.empty() ||
                     std::any_of(isas.begin(), isas.end(),
                                 [&](const Isa& i) { return i.detected && i.name == name; });
  if (!known) {
    Fail(ErrorCode::kUsage, "ISA '{}' is not available; this machine and build have: {}", name,
         Available());
  }
  if (unit != nullptr) {
    for (DotUnit needed : {unit->unit, unit->int8_unit}) {
      const std::string why_not = TryDotUnit(needed);
      if (!why_not.empty()) Refuse(*unit, why_not);
    }
  }
  ForceIsaByName(unit != nullptr ? unit->isa : name);
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

LatentUnits ChooseLatentUnits(ThreadPool& pool, Compute compute, const LogSink& log) {
  Choice& choice = TheChoice();
  std::lock_guard<std::mutex> lock(choice.mutex);
  LatentUnits units;
  const bool none_but_fma = std::none_of(std::begin(kDotUnits), std::end(kDotUnits), [](DotUnit u) {
    return u != DotUnit::kFma && DetectDotUnit(u).named;
  });
  if (none_but_fma) return units;
  const MachineProbe& probe = ProbeMachine(pool);
  LogRemark(probe, log);
  Use(units, VnniUnit(probe));
  if (compute == Compute::kF32) return units;
  if (choice.unit != nullptr) {
    for (DotUnit needed : {choice.unit->unit, choice.unit->int8_unit}) {
      const UnitProbe& unit = Find(probe, needed);
      if (!unit.usable) Refuse(*choice.unit, unit.why_not);
      Use(units, needed);
    }
  } else if (!choice.forced) {
    Use(units, probe.BestUnit(LatentKind::k16Bit).value_or(DotUnit::kFma));
    if (probe.BestUnit(LatentKind::kInt8) == DotUnit::kAmxInt8) Use(units, DotUnit::kAmxInt8);
  }
  return units;
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
