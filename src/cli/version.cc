#include <string>

#include <fmt/core.h>

#include "cli/commands.h"
#include "mla/engine.h"
#include "mla/tools.h"
#include "mla/version.h"

namespace mla {
namespace {

std::string Compiler() {
#if defined(__clang__)
  return fmt::format("clang {}", __clang_version__);
#else
  return fmt::format("gcc {}", __VERSION__);
#endif
}

}  // namespace

std::string VersionText() {
  std::string compiled, detected, chosen = "none";
  for (const IsaInfo& isa : Isas()) {
    compiled += " " + isa.name;
    if (isa.detected) detected += " " + isa.name;
    if (isa.chosen) chosen = isa.name;
  }
  const std::string reason = IsaReason();
  // A variable that names no ISA: commands that run kernels refuse, so none is in use.
  if (reason.starts_with("environment variable ")) chosen = "none";
  return fmt::format(
      "mla {}\ncompiler  {}\ncompiled {}\ndetected {}\nchosen    {} ({})\nthreads   {}", Version(),
      Compiler(), compiled, detected, chosen, reason, DefaultThreads());
}

}  // namespace mla
