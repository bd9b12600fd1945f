#include "engine/machine_probe.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include <fmt/core.h>

#include "engine/available_memory.h"
#include "kernels/isa.h"

namespace mla {
namespace {

// All units together: at start, and where the rates themselves are asked for.
constexpr double kQuickUnitSeconds = 0.012;
constexpr double kUnitSeconds = 0.06;
constexpr double kReadSeconds = 0.02;

// Why `unit` is not usable in the calling thread, or "".
std::string TryHere(DotUnit unit, const DotUnitSystem& system) noexcept {
  try {
    return TryDotUnit(unit, system);
  } catch (...) {
    return "no memory";  // short: it fits into the string itself
  }
}

// Everything but the rates.
std::vector<UnitProbe> ProveUnits(ThreadPool& pool, const DotUnitSystem& system) {
  constexpr size_t kUnits = std::size(kDotUnits);
  std::vector<std::string> found(static_cast<size_t>(pool.threads()) * kUnits);
  pool.RunOnEachThread([&](int thread) {
    for (size_t i = 0; i < kUnits; ++i) {
      found[static_cast<size_t>(thread) * kUnits + i] = TryHere(kDotUnits[i], system);
    }
  });
  std::vector<UnitProbe> units(kUnits);
  for (size_t i = 0; i < kUnits; ++i) {
    UnitProbe& unit = units[i];
    const DotUnitSupport support = DetectDotUnit(kDotUnits[i], system);
    unit.unit = kDotUnits[i];
    unit.named = support.named;
    unit.detected = support.detected();
    unit.why_not = support.why_not;
    for (int thread = 0; thread < pool.threads() && unit.why_not.empty(); ++thread) {
      const std::string& why_not = found[static_cast<size_t>(thread) * kUnits + i];
      if (!why_not.empty()) unit.why_not = fmt::format("{} (thread {})", why_not, thread);
    }
    unit.usable = unit.why_not.empty();
  }
  return units;
}

// A quick probe reads no memory: its buffer would be most of what a small model takes.
MachineProbe Measure(ThreadPool& pool, std::vector<UnitProbe> units, bool quick) {
  constexpr int64_t kMib = int64_t{1} << 20;
  MachineProbe probe;
  probe.cpu = CpuModel();
  probe.isa = ChosenIsa();
  probe.threads = pool.threads();
  probe.caches = DetectCaches();
  if (!quick) {
    const ReadBuffer buffer(pool, std::min(64 * kMib, AvailableMemory() / 4));
    probe.read_bytes = buffer.bytes();
    probe.read_one = buffer.Rate(pool, Threads::kOne, kReadSeconds);
    probe.read_all = buffer.Rate(pool, Threads::kAll, kReadSeconds);
  }
  probe.units = std::move(units);
  std::vector<DotUnit> usable;
  for (const UnitProbe& unit : probe.units) {
    if (unit.usable) usable.push_back(unit.unit);
  }
  const std::vector<UnitRate> rates =
      UnitRates(pool, usable, quick ? kQuickUnitSeconds : kUnitSeconds);
  size_t next = 0;
  for (UnitProbe& unit : probe.units) {
    if (unit.usable) unit.rate = rates[next++];
  }
  return probe;
}

// Plain vectors are no unit for int8 rows.
bool Serves(DotUnit unit, LatentKind kind) {
  return LatentUnitServes(unit, kind) && (unit != DotUnit::kFma || kind == LatentKind::k16Bit);
}

}  // namespace

std::optional<DotUnit> MachineProbe::BestUnit(LatentKind kind) const {
  std::optional<DotUnit> best;
  double most = 0;
  for (const UnitProbe& unit : units) {
    if (!unit.usable || !Serves(unit.unit, kind) || !DotUnitFitsIsa(unit.unit, isa)) continue;
    // Both parts of a query make one and a half times the products with bf16 pairs. Tiles make up
    // for that: their kernel wins even where a virtual machine's tiles fall to a quarter of their
    // rate for seconds, and the choice must not follow such a moment.
    const double rate = unit.rate.one / (unit.unit == DotUnit::kBf16Dot ? 1.5 : 1.0);
    // Units of 16 bits round differently, so a close race must not be decided anew in every
    // process.
    const double needed = kind == LatentKind::k16Bit ? 1.15 * most : most;
    if (!best || rate > needed) {
      best = unit.unit;
      most = rate;
    }
  }
  return best;
}

std::string MachineProbe::Remark() const {
  std::string remark;
  for (const UnitProbe& unit : units) {
    if (!unit.named || unit.usable) continue;
    remark += fmt::format("{}{}: {}",
                          remark.empty() ? "the processor names units that are not used: " : "; ",
                          DotUnitName(unit.unit), unit.why_not);
  }
  return remark;
}

const MachineProbe& ProbeMachine(ThreadPool& pool) {
  static std::mutex mutex;
  static std::map<std::tuple<int, std::string, std::string>, MachineProbe> probes;
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<UnitProbe> units = ProveUnits(pool, RealDotUnitSystem());
  std::string refusals;
  for (const UnitProbe& unit : units) refusals += unit.why_not + '\n';
  const std::tuple key(pool.threads(), ChosenIsa(), refusals);
  auto found = probes.find(key);
  if (found == probes.end())
    found = probes.emplace(key, Measure(pool, std::move(units), true)).first;
  return found->second;
}

MachineProbe MeasureMachine(ThreadPool& pool, const DotUnitSystem& system) {
  return Measure(pool, ProveUnits(pool, system), false);
}

void LogRemark(const MachineProbe& probe, const LogSink& log) {
  const std::string remark = probe.Remark();
  if (log && !remark.empty()) log(LogLevel::kWarning, "mla: " + remark);
}

}  // namespace mla
