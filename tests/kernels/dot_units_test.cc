// Dot units: detection, the tries and their refusals, faults that are survived or passed on.
#include "kernels/x86/dot_units.h"

#include <csignal>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/isa.h"
#include "kernels/x86/fault_guard.h"

namespace mla {
namespace {

// Everything but the tiles' palette, on every architecture.
CpuWords FullCpu() {
  CpuWords words;
  words.leaf7_ebx = 1u << 5 | 1u << 16 | 1u << 30 | 1u << 31;
  words.leaf7_ecx = 1u << 11;
  words.leaf7_1_eax = 1u << 4 | 1u << 5;
  words.xcr0 = 0xe7;
  return words;
}

int Refused() { return 1; }
const char* DoNothing(DotUnit, DotProduct&) { return nullptr; }

constexpr DotUnitSystem kIdle = {FullCpu, Refused, DoNothing};
constexpr DotUnit kVectorUnits[] = {DotUnit::kBf16Dot, DotUnit::kVnni512, DotUnit::kVnni256};

TEST(DotUnits, NamesAreDistinct) {
  std::set<std::string> names;
  for (DotUnit unit : kDotUnits) names.insert(DotUnitName(unit));
  EXPECT_EQ(names.size(), std::size(kDotUnits));
  EXPECT_EQ(names.count(""), 0u);
}

TEST(DotUnits, ThoseOfThisMachineGiveTheKnownProduct) {
  EXPECT_EQ(TryDotUnit(DotUnit::kFma), "");
  std::string ran;
  for (DotUnit unit : kDotUnits) {
    const DotUnitSupport support = DetectDotUnit(unit);
    const std::string why_not = TryDotUnit(unit);
    if (!support.detected()) {
      EXPECT_EQ(why_not, support.why_not) << DotUnitName(unit);
      continue;
    }
    EXPECT_TRUE(support.named);
    EXPECT_EQ(why_not, "") << DotUnitName(unit);
    ran += std::string(" ") + DotUnitName(unit);
    const int64_t once = PeakLoop(unit, 1);
    EXPECT_GE(once, 24) << DotUnitName(unit);
    EXPECT_EQ(PeakLoop(unit, 7), 7 * once) << DotUnitName(unit);
  }
  std::printf("units that ran:%s\n", ran.c_str());
}

TEST(DotUnits, TriesRunInManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::string> found(4);
  for (size_t t = 0; t < found.size(); ++t) {
    threads.emplace_back([&found, t] {
      for (int i = 0; i < 20; ++i) {
        for (DotUnit unit : kDotUnits) {
          const std::string why_not = TryDotUnit(unit);
          if (why_not != DetectDotUnit(unit).why_not) found[t] = why_not;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& why_not : found) EXPECT_EQ(why_not, "");
}

TEST(DotUnits, EachBitIsNeeded) {
  for (DotUnit unit : kVectorUnits) EXPECT_TRUE(DetectDotUnit(unit, kIdle).detected());
  EXPECT_FALSE(DetectDotUnit(DotUnit::kAmxBf16, kIdle).detected());
  DotUnitSystem system = kIdle;
  const auto named = [&](DotUnit unit) { return DetectDotUnit(unit, system).named; };
  system.cpu = [] {
    CpuWords words = FullCpu();
    words.leaf7_1_eax = 1u << 4;
    return words;
  };
  EXPECT_FALSE(named(DotUnit::kBf16Dot));
  EXPECT_TRUE(named(DotUnit::kVnni512));
  EXPECT_TRUE(named(DotUnit::kVnni256));
  system.cpu = [] {
    CpuWords words = FullCpu();
    words.leaf7_ecx = 0;
    words.leaf7_1_eax = 1u << 5;
    return words;
  };
  EXPECT_TRUE(named(DotUnit::kBf16Dot));
  EXPECT_FALSE(named(DotUnit::kVnni512));
  EXPECT_FALSE(named(DotUnit::kVnni256));
  system.cpu = [] {
    CpuWords words = FullCpu();
    words.xcr0 = 0x7;  // AVX, no AVX-512
    return words;
  };
  EXPECT_FALSE(DetectDotUnit(DotUnit::kBf16Dot, system).detected());
  EXPECT_TRUE(named(DotUnit::kBf16Dot));
  EXPECT_NE(TryDotUnit(DotUnit::kVnni512, system).find("XCR0 is 0x7"), std::string::npos);
  EXPECT_TRUE(DetectDotUnit(DotUnit::kVnni256, system).detected());
  system.cpu = [] { return CpuWords(); };
  for (DotUnit unit : kVectorUnits) EXPECT_FALSE(named(unit));
  EXPECT_TRUE(named(DotUnit::kFma));
}

TEST(DotUnits, WrongProductsAreNoticed) {
  for (DotUnit unit : kVectorUnits) {
    // Operands that were never multiplied, and one bit too many behind the sizes.
    EXPECT_EQ(TryDotUnit(unit, kIdle), "its product is wrong") << DotUnitName(unit);
    if (TryDotUnit(unit) != "") continue;
    DotUnitSystem system = RealDotUnitSystem();
    system.product = [](DotUnit real, DotProduct& product) {
      const char* complaint = RealDotUnitSystem().product(real, product);
      product.c[0][63] ^= 1;
      return complaint;
    };
    EXPECT_EQ(TryDotUnit(unit, system), "its product is wrong") << DotUnitName(unit);
  }
}

TEST(DotUnits, ComplaintsOfTheProductArePassedUp) {
  DotUnitSystem system = kIdle;
  system.product = [](DotUnit, DotProduct&) { return "it rains"; };
  EXPECT_EQ(TryDotUnit(DotUnit::kVnni512, system), "it rains");
}

TEST(DotUnits, FitTheIsaThatWasForced) {
  for (DotUnit unit : kDotUnits) {
    EXPECT_TRUE(DotUnitFitsIsa(unit, "avx512"));
    EXPECT_TRUE(DotUnitFitsIsa(unit, "avx512_dl"));
    EXPECT_EQ(DotUnitFitsIsa(unit, "avx2"), unit == DotUnit::kFma || unit == DotUnit::kVnni256);
    EXPECT_EQ(DotUnitFitsIsa(unit, "sse4"), unit == DotUnit::kFma);
  }
}

#if defined(__x86_64__)

void IllegalInstruction(void*) { asm volatile("ud2"); }
// What a refused tile configuration raises: #GP, which the system reports as SIGSEGV.
void ProtectionFault(void*) { asm volatile("hlt"); }
void Nothing(void* flag) { *static_cast<bool*>(flag) = true; }

bool SameHandlers(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_flags == b.sa_flags && a.sa_sigaction == b.sa_sigaction;
}

TEST(FaultGuard, SurvivesFaultsAndPutsHandlersBack) {
  struct sigaction before[2], after[2];
  sigaction(SIGILL, nullptr, &before[0]);
  sigaction(SIGSEGV, nullptr, &before[1]);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(RunGuarded(IllegalInstruction, nullptr), SIGILL);
    EXPECT_EQ(RunGuarded(ProtectionFault, nullptr), SIGSEGV);
    bool ran = false;
    EXPECT_EQ(RunGuarded(Nothing, &ran), 0);
    EXPECT_TRUE(ran);
  }
  sigaction(SIGILL, nullptr, &after[0]);
  sigaction(SIGSEGV, nullptr, &after[1]);
  EXPECT_TRUE(SameHandlers(before[0], after[0]));
  EXPECT_TRUE(SameHandlers(before[1], after[1]));
}

TEST(FaultGuard, SurvivesWhereTheSignalIsBlocked) {
  sigset_t all, before, after;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  EXPECT_EQ(RunGuarded(IllegalInstruction, nullptr), SIGILL);
  pthread_sigmask(SIG_SETMASK, &before, &after);
  EXPECT_EQ(sigismember(&after, SIGILL), 1) << "the mask was not put back";
  EXPECT_EQ(sigismember(&after, SIGUSR1), 1);
}

TEST(FaultGuard, SurvivesInManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::vector<int> survived(4, 0);
  for (size_t t = 0; t < survived.size(); ++t) {
    threads.emplace_back([&survived, t] {
      for (int i = 0; i < 50; ++i) survived[t] += RunGuarded(IllegalInstruction, nullptr) == SIGILL;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int n : survived) EXPECT_EQ(n, 50);
}

volatile sig_atomic_t foreign = 0;
void CountForeign(int) { foreign = foreign + 1; }
void CountForeignInfo(int, siginfo_t*, void*) { foreign = foreign + 1; }
void SendToSelf(void*) { raise(SIGILL); }

// A signal that somebody sent is not the function's fault: its handler gets it, the function goes
// on.
TEST(FaultGuard, PassesForeignSignalsOn) {
  struct sigaction before, mine = {};
  sigaction(SIGILL, nullptr, &before);
  mine.sa_handler = CountForeign;
  sigaction(SIGILL, &mine, nullptr);
  foreign = 0;
  EXPECT_EQ(RunGuarded(SendToSelf, nullptr), 0);
  EXPECT_EQ(foreign, 1);
  // One of another thread, too.
  EXPECT_EQ(RunGuarded([](void*) { std::thread([] { raise(SIGILL); }).join(); }, nullptr), 0);
  EXPECT_EQ(foreign, 2);
  mine.sa_sigaction = CountForeignInfo;
  mine.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &mine, nullptr);
  EXPECT_EQ(RunGuarded(SendToSelf, nullptr), 0);
  EXPECT_EQ(foreign, 3);
  mine = {};
  mine.sa_handler = SIG_IGN;
  sigaction(SIGILL, &mine, nullptr);
  EXPECT_EQ(RunGuarded(SendToSelf, nullptr), 0);
  EXPECT_EQ(RunGuarded(IllegalInstruction, nullptr), SIGILL);
  sigaction(SIGILL, &before, nullptr);
}

TEST(FaultGuardDeathTest, FaultsOfOtherThreadsStillEndTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto die = [] {
    signal(SIGILL, SIG_DFL);
    RunGuarded([](void*) { std::thread([] { asm volatile("ud2"); }).join(); }, nullptr);
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGILL), "");
}

TEST(DotUnits, IllegalInstructionsAreSurvived) {
  DotUnitSystem system = kIdle;
  system.product = [](DotUnit, DotProduct&) -> const char* {
    asm volatile("ud2");
    return nullptr;
  };
  for (DotUnit unit : kVectorUnits) EXPECT_EQ(TryDotUnit(unit, system), "illegal instruction");
  system.product = [](DotUnit, DotProduct&) -> const char* {
    asm volatile("hlt");
    return nullptr;
  };
  EXPECT_EQ(TryDotUnit(DotUnit::kVnni256, system), "the processor refused an instruction");
}

// On a machine without AMX its instructions are illegal: the whole try, without asking CPUID.
TEST(DotUnits, TileInstructionsWithoutTilesAreSurvived) {
  if (DetectDotUnit(DotUnit::kAmxInt8).detected()) GTEST_SKIP() << "this machine has AMX";
  DotUnitSystem system = RealDotUnitSystem();
  system.request_tiles = [] { return 0; };
  system.cpu = [] {
    CpuWords words;
    words.leaf7_edx = 1u << 22 | 1u << 24 | 1u << 25;
    words.leaf1d_eax = 1;
    words.leaf1d_1_eax = 1024u << 16 | 8192u;
    words.leaf1d_1_ebx = 8u << 16 | 64u;
    words.leaf1d_1_ecx = 16;
    words.xcr0 = 0x600e7;
    return words;
  };
  for (DotUnit unit : {DotUnit::kAmxBf16, DotUnit::kAmxInt8}) {
    EXPECT_EQ(TryDotUnit(unit, system), "illegal instruction");
  }
}

#endif  // __x86_64__

}  // namespace
}  // namespace mla
