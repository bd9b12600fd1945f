// main() of the test programs that are registered once per instruction set (add_isa_tests).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/isa.h"

namespace {

constexpr int kSkipped = 77;  // SKIP_RETURN_CODE of add_isa_tests

// Forces the ISA of MLA_ISA. Returns 0 to go on, kSkipped if this machine lacks it, 1 if the build
// does: a test of an ISA that was never compiled would otherwise pass for ever.
int ForceFromEnvironment() {
  const char* wanted = std::getenv("MLA_ISA");
  if (wanted == nullptr || *wanted == '\0') return 0;
  for (const mla::Isa& isa : mla::CompiledIsas()) {
    if (isa.name != wanted) continue;
    if (!isa.detected) {
      std::printf("skipped: this machine has no %s\n", wanted);
      return kSkipped;
    }
    mla::ForceIsaByName(wanted);
    return mla::ChosenIsa() == wanted ? 0 : 1;
  }
  std::printf("ISA '%s' was not compiled\n", wanted);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const int status = ForceFromEnvironment(); status != 0) return status;
  std::printf("ISA: %s\n", mla::ChosenIsa().c_str());
  return RUN_ALL_TESTS();
}
