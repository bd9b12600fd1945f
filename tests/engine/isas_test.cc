// Names of ISAs that come with a unit for bf16 latents, and the choice of that unit.
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
};
constexpr Named kNamed[] = {{"avx512_bf16", DotUnit::kBf16Dot}, {"amx", DotUnit::kAmxBf16}};

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
    ChooseLatentUnit(pool_, Compute::kF32, {});
    EXPECT_EQ(LatentUnit(), DotUnit::kFma);
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

TEST_F(IsasTest, AnIsaWithoutUnitMeansMultiplyAdds) {
  for (const Isa& isa : CompiledIsas()) {
    if (!isa.detected) continue;
    ForceIsa(isa.name);
    ChooseLatentUnit(pool_, Compute::kAuto, {});
    EXPECT_EQ(LatentUnit(), DotUnit::kFma) << isa.name;
    EXPECT_EQ(IsaInUse(), isa.name);
  }
}

TEST_F(IsasTest, WithoutANameTheFastestUnitIsChosen) {
  ForceIsa("");
  ChooseLatentUnit(pool_, Compute::kAuto, {});
  EXPECT_EQ(LatentUnit(), ProbeMachine(pool_).BestUnit(LatentKind::k16Bit));
  ChooseLatentUnit(pool_, Compute::kF32, {});
  EXPECT_EQ(LatentUnit(), DotUnit::kFma);
}

}  // namespace
}  // namespace mla
