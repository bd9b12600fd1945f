// Names of ISAs that come with units for latents, and the choice of the units.
#include "engine/isas.h"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "engine/machine_probe.h"
#include "kernels/isa.h"
#include "kernels/latent_unit.h"
#include "mla/engine.h"
#include "support/expect_error.h"

namespace mla {
namespace {

struct Named {
  const char* name;
  DotUnit unit;
  bool tiles;
};
constexpr Named kNamed[] = {{"avx512_bf16", DotUnit::kBf16Dot, false},
                            {"amx", DotUnit::kAmxBf16, true}};

// The vector unit that int8 latents get on an ISA: of its own width.
DotUnit VnniOf(const std::string& isa) {
  for (const DotUnit unit : {DotUnit::kVnni512, DotUnit::kVnni256}) {
    if (DotUnitFitsIsa(unit, isa) && TryDotUnit(unit).empty()) return unit;
  }
  return DotUnit::kFma;
}
DotUnit Int8Unit() { return LatentUnit(LatentKind::kInt8); }

std::string Chosen() {
  std::string chosen;
  for (const IsaInfo& isa : Isas()) {
    if (isa.chosen) chosen += isa.name;
  }
  return chosen;
}

class IsasTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("MLA_ISA"); }
  void TearDown() override {
    ForceIsa("");
    SetLatentUnit(DotUnit::kFma);
  }
  ThreadPool pool_{2};
};

TEST_F(IsasTest, AnUnknownNameListsWhatThereIs) {
  std::string message;
  try {
    ForceIsa("avx1024");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUsage);
    message = e.what();
  }
  EXPECT_NE(message.find("avx1024"), std::string::npos) << message;
  for (const IsaInfo& isa : Isas()) {
    EXPECT_EQ(message.find(isa.name) != std::string::npos, isa.detected) << isa.name << message;
  }
}

TEST_F(IsasTest, AUnitIsForcedByNameOrRefusedWithTheReason) {
  ForceIsa("");
  const std::string before = Chosen();
  for (const Named& n : kNamed) {
    const std::string why_not = TryDotUnit(n.unit);
    if (!why_not.empty()) {
      ExpectError(ErrorCode::kUsage, {n.name, why_not.c_str(), "avx512"},
                  [&] { ForceIsa(n.name); });
      EXPECT_EQ(Chosen(), before);
      EXPECT_EQ(LatentUnit(), DotUnit::kFma);
      continue;
    }
    ForceIsa(n.name);
    EXPECT_EQ(IsaInUse(), n.name);
    EXPECT_EQ(Chosen(), n.name);
    EXPECT_EQ(ChosenIsa(), "avx512");
    EXPECT_EQ(IsaReason(), "forced by --isa");
    EXPECT_EQ(LatentUnit(), n.unit);
    ChooseLatentUnit(pool_, Compute::kAuto, {});
    EXPECT_EQ(LatentUnit(), n.unit);
    EXPECT_EQ(Int8Unit(), n.tiles ? DotUnit::kAmxInt8 : VnniOf("avx512"));
    ChooseLatentUnit(pool_, Compute::kF32, {});
    EXPECT_EQ(LatentUnit(), DotUnit::kFma);
    EXPECT_EQ(Int8Unit(), VnniOf("avx512"));
    ForceIsa("");
    EXPECT_EQ(Chosen(), before);
  }
}

TEST_F(IsasTest, TheVariableTakesTheSameNames) {
  for (const Named& n : kNamed) {
    setenv("MLA_ISA", n.name, 1);
    if (TryDotUnit(n.unit).empty()) {
      ForceIsa("");
      EXPECT_EQ(IsaInUse(), n.name);
      EXPECT_EQ(LatentUnit(), n.unit);
    } else {
      ExpectError(ErrorCode::kUsage, {"MLA_ISA", n.name}, [] { ForceIsa(""); });
    }
    unsetenv("MLA_ISA");
    ForceIsa("");
  }
}

TEST_F(IsasTest, AnIsaWithoutUnitMeansVectors) {
  for (const Isa& isa : CompiledIsas()) {
    if (!isa.detected) continue;
    ForceIsa(isa.name);
    ChooseLatentUnit(pool_, Compute::kAuto, {});
    EXPECT_EQ(LatentUnit(), DotUnit::kFma) << isa.name;
    EXPECT_EQ(Int8Unit(), VnniOf(isa.name)) << isa.name;
    EXPECT_STREQ(LatentKernelName(Elem::kInt8),
                 Int8Unit() == DotUnit::kFma ? "pairs" : DotUnitName(Int8Unit()));
    EXPECT_EQ(IsaInUse(), isa.name);
  }
}

TEST_F(IsasTest, WithoutANameTheFastestUnitIsChosen) {
  ForceIsa("");
  ChooseLatentUnit(pool_, Compute::kAuto, {});
  const MachineProbe& probe = ProbeMachine(pool_);
  EXPECT_EQ(LatentUnit(), probe.BestUnit(LatentKind::k16Bit));
  const bool tiles = probe.BestUnit(LatentKind::kInt8) == DotUnit::kAmxInt8;
  EXPECT_EQ(Int8Unit(), tiles ? DotUnit::kAmxInt8 : VnniOf(ChosenIsa()));
  ChooseLatentUnit(pool_, Compute::kF32, {});
  EXPECT_EQ(LatentUnit(), DotUnit::kFma);
}

}  // namespace
}  // namespace mla
