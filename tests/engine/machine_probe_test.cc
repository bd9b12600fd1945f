// The probe: units that fail in one thread, the choice by speed, the cache, the bench around it.
#include "engine/machine_probe.h"

#include <algorithm>

#include <csignal>

#include <gtest/gtest.h>

#include "kernels/isa.h"
#include "mla/bench.h"
#include "support/expect_error.h"

namespace mla {
namespace {

const UnitProbe& Find(const MachineProbe& probe, DotUnit unit) {
  for (const UnitProbe& u : probe.units) {
    if (u.unit == unit) return u;
  }
  throw std::logic_error("unit is missing");
}

UnitProbe Usable(DotUnit unit, double one) {
  UnitProbe probe;
  probe.unit = unit;
  probe.named = probe.detected = probe.usable = true;
  probe.rate.one = one;
  return probe;
}

TEST(MachineProbe, MeasuresEveryUsableUnit) {
  ThreadPool pool(2);
  const MachineProbe probe = MeasureMachine(pool);
  EXPECT_EQ(probe.threads, 2);
  EXPECT_EQ(probe.isa, ChosenIsa());
  EXPECT_FALSE(probe.cpu.empty());
  EXPECT_GT(probe.read_one, 1e7);
  EXPECT_GT(probe.read_all, 1e7);
  EXPECT_GE(probe.read_bytes, 4 << 20);
  ASSERT_EQ(probe.units.size(), std::size(kDotUnits));
  for (size_t i = 0; i < probe.units.size(); ++i) {
    const UnitProbe& unit = probe.units[i];
    EXPECT_EQ(unit.unit, kDotUnits[i]);
    EXPECT_EQ(unit.usable, unit.why_not.empty());
    EXPECT_EQ(unit.usable, TryDotUnit(unit.unit).empty());
    EXPECT_EQ(unit.rate.one > 0, unit.usable);
    EXPECT_EQ(unit.rate.all > 0, unit.usable);
  }
  EXPECT_EQ(probe.Remark(), "");
  EXPECT_TRUE(probe.BestUnit(LatentKind::k16Bit).has_value());
}

TEST(MachineProbe, IsMeasuredOncePerThreadCountAndIsa) {
  ThreadPool one(1), two(2), again(2);
  const MachineProbe& first = ProbeMachine(two);
  EXPECT_EQ(&ProbeMachine(again), &first);
  EXPECT_EQ(first.threads, 2);
  EXPECT_NE(&ProbeMachine(one), &first);
  EXPECT_EQ(ProbeMachine(one).threads, 1);
  const std::string before = ChosenIsa();
  const std::string lowest = CompiledIsas().back().name;
  ForceIsaByName(lowest);
  EXPECT_EQ(ProbeMachine(two).isa, lowest);
  ForceIsaByName(before);
  EXPECT_EQ(&ProbeMachine(two), &first);
}

#if defined(__x86_64__)

std::atomic<std::thread::id> victim;

// An illegal instruction in one worker only, as where tiles do not take in one thread.
const char* FaultInTheVictim(DotUnit unit, DotProduct& product) {
  if (std::this_thread::get_id() == victim.load()) asm volatile("ud2");
  return RealDotUnitSystem().product(unit, product);
}

TEST(MachineProbe, AUnitThatFailsInOneWorkerIsLeftOutWithARemark) {
  ThreadPool pool(3);
  pool.RunOnEachThread([](int thread) {
    if (thread == 2) victim.store(std::this_thread::get_id());
  });
  DotUnitSystem system = RealDotUnitSystem();
  system.product = FaultInTheVictim;
  const MachineProbe probe = MeasureMachine(pool, system);
  std::string expected;
  for (const UnitProbe& unit : probe.units) {
    if (unit.unit == DotUnit::kFma || !DetectDotUnit(unit.unit).detected()) continue;
    EXPECT_TRUE(unit.detected);
    EXPECT_FALSE(unit.usable) << DotUnitName(unit.unit);
    EXPECT_EQ(unit.why_not, "illegal instruction (thread 2)");
    EXPECT_EQ(unit.rate.all, 0);
    expected += (expected.empty() ? "" : "; ") + std::string(DotUnitName(unit.unit)) +
                ": illegal instruction (thread 2)";
  }
  EXPECT_EQ(probe.BestUnit(LatentKind::k16Bit), DotUnit::kFma);
  EXPECT_EQ(probe.BestUnit(LatentKind::kInt8), std::nullopt);
  std::vector<std::string> lines;
  const LogSink sink = [&](LogLevel level, std::string_view line) {
    EXPECT_EQ(level, LogLevel::kWarning);
    lines.emplace_back(line);
  };
  LogRemark(probe, sink);
  LogRemark(probe, {});
  if (expected.empty()) {
    EXPECT_TRUE(lines.empty());
  } else {
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0], "mla: the processor names units that are not used: " + expected);
  }
}

// Named, but the system refuses: a remark. Not named: none.
TEST(MachineProbe, RefusedPermissionLeavesARemark) {
  ThreadPool pool(1);
  DotUnitSystem system = RealDotUnitSystem();
  system.request_tiles = [] { return 1; };
  system.cpu = [] {
    CpuWords words;
    words.leaf7_edx = 1u << 24 | 1u << 25;
    words.leaf1d_eax = 1;
    words.leaf1d_1_eax = 1024u << 16 | 8192u;
    words.leaf1d_1_ebx = 8u << 16 | 64u;
    words.leaf1d_1_ecx = 16;
    words.xcr0 = 0x600e7;
    return words;
  };
  const MachineProbe probe = MeasureMachine(pool, system);
  const std::string remark = probe.Remark();
  EXPECT_NE(remark.find("amx-int8: the system refuses the permission"), std::string::npos);
  EXPECT_EQ(remark.find("amx-bf16"), std::string::npos);
  EXPECT_EQ(remark.find("vnni"), std::string::npos);
  EXPECT_FALSE(Find(probe, DotUnit::kAmxInt8).detected);
}

#endif  // __x86_64__

TEST(MachineProbe, ChoosesByMeasuredSpeed) {
  MachineProbe probe;
  probe.isa = "avx512";
  EXPECT_EQ(probe.BestUnit(LatentKind::k16Bit), std::nullopt);
  // A processor with slow vdpbf16ps, and one where it is fast.
  probe.units = {Usable(DotUnit::kFma, 150e9), Usable(DotUnit::kBf16Dot, 70e9)};
  EXPECT_EQ(probe.BestUnit(LatentKind::k16Bit), DotUnit::kFma);
  EXPECT_EQ(probe.BestUnit(LatentKind::kInt8), std::nullopt);
  probe.units[1].rate.one = 220e9;  // less than one and a half times as fast
  EXPECT_EQ(probe.BestUnit(LatentKind::k16Bit), DotUnit::kFma);
  probe.units[1].rate.one = 250e9;  // by too little to count on
  EXPECT_EQ(probe.BestUnit(LatentKind::k16Bit), DotUnit::kFma);
  probe.units[1].rate.one = 500e9;
  EXPECT_EQ(probe.BestUnit(LatentKind::k16Bit), DotUnit::kBf16Dot);
  probe.units.push_back(Usable(DotUnit::kVnni512, 300e9));
  probe.units.push_back(Usable(DotUnit::kVnni256, 310e9));
  EXPECT_EQ(probe.BestUnit(LatentKind::kInt8), DotUnit::kVnni256);
  probe.units.push_back(Usable(DotUnit::kAmxBf16, 2000e9));
  probe.units.push_back(Usable(DotUnit::kAmxInt8, 4000e9));
  EXPECT_EQ(probe.BestUnit(LatentKind::k16Bit), DotUnit::kAmxBf16);
  EXPECT_EQ(probe.BestUnit(LatentKind::kInt8), DotUnit::kAmxInt8);
  // Fast, but refused.
  probe.units.back().usable = false;
  EXPECT_EQ(probe.BestUnit(LatentKind::kInt8), DotUnit::kVnni256);
  // What a forced ISA leaves.
  probe.isa = "avx2";
  EXPECT_EQ(probe.BestUnit(LatentKind::k16Bit), DotUnit::kFma);
  EXPECT_EQ(probe.BestUnit(LatentKind::kInt8), DotUnit::kVnni256);
  probe.isa = "sse4";
  EXPECT_EQ(probe.BestUnit(LatentKind::kInt8), std::nullopt);
}

TEST(PeaksBench, ReportsWhatTheProbeSays) {
  PeaksOptions options;
  options.threads = 2;
  options.read_bytes = 8 << 20;
  const PeaksReport report = RunPeaksBench(options);
  EXPECT_EQ(report.threads, 2);
  EXPECT_EQ(report.memory_read.bytes, 8 << 20);
  EXPECT_GT(report.memory_read.gbps_one, 0.01);
  EXPECT_GT(report.memory_read.gbps_all, 0.01);
  size_t detected = 0;
  for (const Isa& isa : CompiledIsas()) detected += isa.detected ? 1 : 0;
  ASSERT_EQ(report.isas.size(), detected);
  for (const IsaPeak& peak : report.isas) {
    EXPECT_GT(peak.tflops_one, 1e-6) << peak.isa;
    EXPECT_GT(peak.tflops_all, 1e-6) << peak.isa;
  }
  ThreadPool pool(2);
  const MachineProbe& probe = ProbeMachine(pool);
  ASSERT_EQ(report.units.size(), probe.units.size());
  for (size_t i = 0; i < probe.units.size(); ++i) {
    EXPECT_EQ(report.units[i].unit, DotUnitName(probe.units[i].unit));
    EXPECT_EQ(report.units[i].tops_all > 0, probe.units[i].rate.all > 0);
    EXPECT_EQ(report.units[i].usable, probe.units[i].usable);
  }
  // Measured apart from the probe, so that a close race may end otherwise: a usable unit at least.
  EXPECT_TRUE(std::any_of(report.units.begin(), report.units.end(), [&](const UnitPeak& unit) {
    return unit.usable && unit.unit == report.latent_16bit;
  })) << report.latent_16bit;
}

TEST(PeaksBench, RefusesWhatMakesNoSense) {
  const auto run = [](auto change) {
    return [change] {
      PeaksOptions options;
      change(options);
      RunPeaksBench(options);
    };
  };
  ExpectError(ErrorCode::kUsage, {"threads is -1"}, run([](auto& o) { o.threads = -1; }));
  ExpectError(ErrorCode::kUsage, {"threads is 5000"}, run([](auto& o) { o.threads = 5000; }));
  ExpectError(ErrorCode::kUsage, {"read_bytes is -1"}, run([](auto& o) { o.read_bytes = -1; }));
  ExpectError(ErrorCode::kUsage, {"nosuch"}, run([](auto& o) { o.isa = "nosuch"; }));
}

}  // namespace
}  // namespace mla
