// Instruction sets: which were compiled, which this machine has, which one runs.
// Called by: engine (public API), cli, tests. Thread-safety: Force before kernels run.
#ifndef MLA_KERNELS_ISA_H_
#define MLA_KERNELS_ISA_H_

#include <string>
#include <vector>

namespace mla {

struct Isa {
  std::string name;  ///< "sse2", "ssse3", "sse4", "avx2", "avx512", "neon", ...
  bool detected;     ///< this machine has it
};

/// All compiled ISAs, best first.
std::vector<Isa> CompiledIsas();

/// The ISA that kernels run on now.
std::string ChosenIsa();

/// Makes every kernel of the process run on `name`; "" means the best detected. Throws kUsage
/// listing the choices if the name is unknown, not compiled or not detected.
void ForceIsaByName(const std::string& name);

}  // namespace mla

#endif  // MLA_KERNELS_ISA_H_
