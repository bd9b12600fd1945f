// The probe: what this machine reaches with the threads that will work, and which unit is best.
// Called by: engine (benches; the choice of kernels). Thread-safety: ProbeMachine is safe, but one
// pool runs one region at a time; MachineProbe is a value.
#ifndef MLA_ENGINE_MACHINE_PROBE_H_
#define MLA_ENGINE_MACHINE_PROBE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/rates.h"
#include "kernels/latent_unit.h"
#include "kernels/x86/dot_units.h"
#include "mla/log.h"
#include "parallel/thread_pool.h"
#include "parallel/topology.h"

namespace mla {

struct UnitProbe {
  DotUnit unit = DotUnit::kFma;
  bool named = false;     ///< CPUID names it
  bool detected = false;  ///< and the system allows it
  bool usable = false;    ///< and its known product was right in every thread of the pool
  std::string why_not;    ///< empty if usable
  UnitRate rate{};
};

struct MachineProbe {
  std::string cpu;
  std::string isa;  ///< chosen when it was measured; reads and fp32 multiply-adds ran on it
  int threads = 1;
  CacheSizes caches;
  /// Bytes per second from a buffer of read_bytes, at most 64 MiB: more than an L2 cache holds, but
  /// on machines with a large L3 that is what it measures, not memory.
  int64_t read_bytes = 0;
  double read_one = 0;
  double read_all = 0;
  std::vector<UnitProbe> units;  ///< all of kDotUnits, in that order

  /// The usable unit that fits the ISA and does most for one thread, the second part of a query
  /// counted for kBf16Dot, with some preference for kFma, then kBf16Dot. k16Bit: kFma, kBf16Dot or
  /// kAmxBf16. kInt8: kVnni512, kVnni256, kAmxInt8, or none.
  std::optional<DotUnit> BestUnit(LatentKind kind) const;

  /// One line about units that CPUID names but that do not work; empty if there is none.
  std::string Remark() const;
};

/// Tries every unit in every thread of the pool, each time, which takes well under a millisecond;
/// measures the units (about 0.03 s) once per process for each number of threads, ISA and set of
/// usable units, but no memory. The reference stays valid. No kernel may run meanwhile on the pool.
const MachineProbe& ProbeMachine(ThreadPool& pool);

/// The same, measured anew and longer, and reads of memory too: the peaks bench. Throws kResource
/// if there is no memory for the buffer. Tests replace `system`.
MachineProbe MeasureMachine(ThreadPool& pool, const DotUnitSystem& system = RealDotUnitSystem());

/// Hands the remark, if there is one, to the sink as a warning.
void LogRemark(const MachineProbe& probe, const LogSink& log);

}  // namespace mla

#endif  // MLA_ENGINE_MACHINE_PROBE_H_
