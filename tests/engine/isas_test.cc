// Names of ISAs that come with units for latents, and the choice of the units.
#include "engine/isas.h"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "engine/machine_probe.h"
#include "kernels/isa.h"
#include "kernels/latent_int8.h"
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
  void TearDown() override { ForceIsa(""); }
  LatentUnits Choose(Compute compute) { return ChooseLatentUnits(pool_, compute, {}); }

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
      continue;
    }
    ForceIsa(n.name);
    EXPECT_EQ(IsaInUse(), n.name);
    EXPECT_EQ(Chosen(), n.name);
    EXPECT_EQ(ChosenIsa(), "avx512");
    EXPECT_EQ(IsaReason(), "forced by --isa");
    const LatentUnits fastest = Choose(Compute::kAuto);
    EXPECT_EQ(fastest.of_16_bits, n.unit);
    EXPECT_EQ(fastest.of_int8, n.tiles ? DotUnit::kAmxInt8 : VnniOf("avx512"));
    const LatentUnits exact = Choose(Compute::kF32);
    EXPECT_EQ(exact.of_16_bits, DotUnit::kFma);
    EXPECT_EQ(exact.of_int8, VnniOf("avx512"));
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
      EXPECT_EQ(Choose(Compute::kAuto).of_16_bits, n.unit);
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
    const LatentUnits units = Choose(Compute::kAuto);
    EXPECT_EQ(units.of_16_bits, DotUnit::kFma) << isa.name;
    EXPECT_EQ(units.of_int8, VnniOf(isa.name)) << isa.name;
    EXPECT_STREQ(Int8LatentFamily(units.of_int8),
                 units.of_int8 == DotUnit::kFma ? "pairs" : DotUnitName(units.of_int8));
    EXPECT_EQ(IsaInUse(), isa.name);
  }
}

TEST_F(IsasTest, WithoutANameTheFastestUnitIsChosen) {
  ForceIsa("");
  const LatentUnits units = Choose(Compute::kAuto);
  const MachineProbe& probe = ProbeMachine(pool_);
  EXPECT_EQ(units.of_16_bits, probe.BestUnit(LatentKind::k16Bit));
  const bool tiles = probe.BestUnit(LatentKind::kInt8) == DotUnit::kAmxInt8;
  EXPECT_EQ(units.of_int8, tiles ? DotUnit::kAmxInt8 : VnniOf(ChosenIsa()));
  EXPECT_EQ(Choose(Compute::kF32).of_16_bits, DotUnit::kFma);
}

// A model keeps its own units, whatever is loaded after it.
TEST_F(IsasTest, TwoModelsMayDiffer) {
  LoadOptions options;
  const Model fast = Model::Load(MLA_MODELS "/stories-mla", options);
  SessionOptions session_options;
  session_options.attention = Attention::kAbsorbed;
  Session first(fast, session_options);
  const std::string kernel = first.kernel();
  options.compute = Compute::kF32;
  const Model exact = Model::Load(MLA_MODELS "/stories-mla", options);
  Session second(exact, session_options);
  EXPECT_EQ(second.kernel(), "fma");
  EXPECT_EQ(first.kernel(), kernel);
  EXPECT_EQ(Session(fast, session_options).kernel(), kernel);
}

}  // namespace
}  // namespace mla
