#include <algorithm>

#include "base/check.h"
#include "engine/available_memory.h"
#include "engine/isas.h"
#include "engine/machine_peaks.h"
#include "engine/machine_probe.h"
#include "engine/rates.h"
#include "mla/bench.h"

namespace mla {
namespace {

std::string BestName(const MachineProbe& probe, LatentKind kind) {
  const std::optional<DotUnit> unit = probe.BestUnit(kind);
  return unit ? DotUnitName(*unit) : "none";
}

UnitPeak Describe(const UnitProbe& probe, const std::string& isa) {
  UnitPeak peak;
  peak.unit = DotUnitName(probe.unit);
  peak.detected = probe.detected;
  peak.usable = probe.usable;
  peak.fits_isa = DotUnitFitsIsa(probe.unit, isa);
  peak.why_not = probe.why_not;
  peak.tops_one = probe.rate.one / 1e12;
  peak.tops_all = probe.rate.all / 1e12;
  return peak;
}

}  // namespace

PeaksReport RunPeaksBench(const PeaksOptions& options) {
  if (options.threads < 0 || options.threads > 4096) {
    Fail(ErrorCode::kUsage, "threads is {}; expected 1 to 4096, or 0 for the default",
         options.threads);
  }
  if (options.read_bytes < 0) {
    Fail(ErrorCode::kUsage, "read_bytes is {}; expected 0 or more", options.read_bytes);
  }
  if (options.isa.empty()) {
    EnsureIsaChosen();
  } else {
    ForceIsa(options.isa);
  }
  ThreadPool pool(options.threads > 0 ? options.threads : DefaultThreads());
  const MachineProbe probe = MeasureMachine(pool);
  LogRemark(probe, options.log);

  PeaksReport report;
  report.cpu = probe.cpu;
  report.isa = probe.isa;
  report.threads = probe.threads;
  report.l1d_bytes = probe.caches.l1d;
  report.l2_bytes = probe.caches.l2;
  report.l3_bytes = probe.caches.l3;
  report.probe_read = {probe.read_bytes, probe.read_one / 1e9, probe.read_all / 1e9};
  for (const UnitProbe& unit : probe.units) report.units.push_back(Describe(unit, probe.isa));
  report.latent_16bit = BestName(probe, LatentKind::k16Bit);
  report.latent_int8 = BestName(probe, LatentKind::kInt8);
  for (const IsaRate& rate : IsaRates(pool, 0.1)) {
    report.isas.push_back({rate.isa, rate.rate.one / 1e12, rate.rate.all / 1e12});
  }
  const int64_t read_bytes =
      options.read_bytes > 0 ? options.read_bytes : ReadBufferBytes(AvailableMemory());
  const ReadBuffer buffer(pool, read_bytes);
  report.memory_read = {buffer.bytes(), buffer.Rate(pool, Threads::kOne, 0.5) / 1e9,
                        buffer.Rate(pool, Threads::kAll, 0.5) / 1e9};
  return report;
}

}  // namespace mla
