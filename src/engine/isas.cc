// The public view of kernels/isa.h, with the reason for the choice.
#include <cstdlib>
#include <mutex>

#include "engine/isas.h"
#include "kernels/isa.h"
#include "mla/engine.h"

namespace mla {
namespace {

struct Choice {
  std::mutex mutex;
  std::string reason;  // empty: nothing chosen yet
};

Choice& TheChoice() {
  static Choice choice;
  return choice;
}

void Choose(Choice& choice, const std::string& name) {
  const char* variable = std::getenv("MLA_ISA");
  if (!name.empty()) {
    ForceIsaByName(name);
    choice.reason = "forced by --isa";
  } else if (variable != nullptr && *variable != '\0') {
    try {
      ForceIsaByName(variable);
    } catch (const Error& e) {
      throw Error(e.code(), std::string("environment variable MLA_ISA: ") + e.what());
    }
    choice.reason = "forced by MLA_ISA";
  } else {
    ForceIsaByName("");
    choice.reason = "best detected";
  }
}

}  // namespace

void EnsureIsaChosen() {
  Choice& choice = TheChoice();
  std::lock_guard<std::mutex> lock(choice.mutex);
  if (choice.reason.empty()) Choose(choice, "");
}

void ForceIsa(const std::string& name) {
  Choice& choice = TheChoice();
  std::lock_guard<std::mutex> lock(choice.mutex);
  Choose(choice, name);
}

std::vector<IsaInfo> Isas() {
  std::vector<IsaInfo> isas;
  IsaReason();  // looks at MLA_ISA
  const std::string chosen = ChosenIsa();
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
