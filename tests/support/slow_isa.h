// Whether tests should keep their sizes down.
// Called by: tests that see kernels. Thread-safety: stateless.
#ifndef MLA_TESTS_SUPPORT_SLOW_ISA_H_
#define MLA_TESTS_SUPPORT_SLOW_ISA_H_

#include "kernels/isa.h"

namespace mla {

/// Emulated vectors and processors, and sanitizers cost an order of magnitude.
inline bool SlowIsa() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(MLA_EMULATED)
  return true;
#else
  return ChosenIsa() == "scalar";
#endif
}

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_SLOW_ISA_H_
