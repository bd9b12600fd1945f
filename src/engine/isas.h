// Makes sure that MLA_ISA was looked at before kernels run.
// Called by: engine. Thread-safety: safe.
#ifndef MLA_ENGINE_ISAS_H_
#define MLA_ENGINE_ISAS_H_

namespace mla {

/// Applies MLA_ISA, or the best detected, unless a choice was made already. Throws kUsage if
/// MLA_ISA names an ISA that is not available.
void EnsureIsaChosen();

}  // namespace mla

#endif  // MLA_ENGINE_ISAS_H_
