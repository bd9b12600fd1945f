// How much memory this process may still take.
// Called by: engine. Thread-safety: reads the system; stateless.
#ifndef MLA_ENGINE_AVAILABLE_MEMORY_H_
#define MLA_ENGINE_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace mla {

/// Bytes: the smallest of what the system has available without swapping (MemAvailable) and what
/// the limits of the process's cgroups (v2 and v1) leave; the largest int64 if the system says
/// nothing. `root` replaces "/" in tests.
int64_t AvailableMemory(const std::string& root = "");

}  // namespace mla

#endif  // MLA_ENGINE_AVAILABLE_MEMORY_H_
