// Makes sure that MLA_ISA was looked at before kernels run, and chooses the units of latent
// kernels. Called by: engine. Thread-safety: safe, but no kernel may run meanwhile.
#ifndef MLA_ENGINE_ISAS_H_
#define MLA_ENGINE_ISAS_H_

#include <string>

#include "kernels/latent_unit.h"
#include "mla/log.h"
#include "mla/options.h"
#include "parallel/thread_pool.h"

namespace mla {

/// Applies MLA_ISA, or the best detected, unless a choice was made already. Throws kUsage if
/// MLA_ISA names an ISA that is not available.
void EnsureIsaChosen();

/// The chosen ISA by the name that was forced, "amx" for one, else as kernels/isa.h names it.
std::string IsaInUse();

/// The units for latents (kernels/latent_unit.h). For bf16: fp32
/// multiply-adds with Compute::kF32 or an ISA forced without a unit, the unit of a forced name that
/// has one, else whichever the probe of this machine found fastest. For int8: VNNI as the ISA has
/// it; AMX with "amx" and where nothing was forced and the probe found it fastest. What the probe
/// remarks goes to `log`. After the ISA was chosen. Throws kUsage if a forced unit does not work in
/// every thread of the pool.
LatentUnits ChooseLatentUnits(ThreadPool& pool, Compute compute, const LogSink& log);

}  // namespace mla

#endif  // MLA_ENGINE_ISAS_H_
