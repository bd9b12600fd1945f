#include "engine/machine_peaks.h"

#include <algorithm>
#include <vector>

#include "engine/machine_probe.h"
#include "engine/rates.h"
#include "parallel/topology.h"

namespace mla {

int64_t ReadBufferBytes(int64_t available) {
  constexpr int64_t kMib = int64_t{1} << 20;
  const int64_t wanted = std::min(std::max(512 * kMib, 2 * DetectCaches().l3), 2048 * kMib);
  return std::max(4 * kMib, std::min(wanted, available / 4));
}

BenchPeaks MeasurePeaks(ThreadPool& pool, int64_t read_bytes) {
  BenchPeaks peaks;
  peaks.read_gbps = ReadBuffer(pool, read_bytes).Rate(pool, Threads::kAll, 0.3) / 1e9;
  for (const IsaRate& rate : IsaRates(pool, 0.04)) {
    peaks.tflops[rate.isa] = rate.rate.all / 1e12;
  }
  std::vector<DotUnit> units;
  for (const UnitProbe& unit : ProbeMachine(pool).units) {
    if (unit.usable) units.push_back(unit.unit);
  }
  const std::vector<UnitRate> rates = UnitRates(pool, units, 0.04);
  for (size_t i = 0; i < units.size(); ++i) {
    peaks.units[DotUnitName(units[i])] = rates[i].all / 1e12;
  }
  return peaks;
}

}  // namespace mla
