#include "kernels/isa.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "support/expect_error.h"

namespace mla {
namespace {

// The program may itself run on a forced ISA: leaves it as it was.
class IsaTest : public testing::Test {
 protected:
  void TearDown() override { ForceIsaByName(before_); }
  const std::string before_ = ChosenIsa();
};

TEST_F(IsaTest, ListsEachOnceBestFirst) {
  const std::vector<Isa> isas = CompiledIsas();
  ASSERT_FALSE(isas.empty());
  for (const Isa& isa : isas) {
    EXPECT_EQ(std::count_if(isas.begin(), isas.end(),
                            [&](const Isa& other) { return other.name == isa.name; }),
              1)
        << isa.name;
  }
  const auto at = [&](const char* name) {
    return std::find_if(isas.begin(), isas.end(), [&](const Isa& i) { return i.name == name; });
  };
#if defined(__x86_64__)
  EXPECT_NE(at("avx512"), isas.end());
  EXPECT_NE(at("avx2"), isas.end());
  // A build may leave the lower ones out (MLA_FEWER_ISAS): both or neither.
  EXPECT_EQ(at("sse4") == isas.end(), at("ssse3") == isas.end());
  EXPECT_LT(at("avx512"), at("avx2"));
  EXPECT_LE(at("avx2"), at("sse4"));
  EXPECT_LE(at("sse4"), at("ssse3"));
#elif defined(__aarch64__)
  EXPECT_NE(at("neon"), isas.end());
#else
  EXPECT_EQ(at("none"), isas.end());
#endif
}

TEST_F(IsaTest, EmptyNameMeansTheBestDetected) {
  ForceIsaByName("");
  const std::vector<Isa> isas = CompiledIsas();
  const auto best = std::find_if(isas.begin(), isas.end(), [](const Isa& i) { return i.detected; });
  ASSERT_NE(best, isas.end());
  EXPECT_EQ(ChosenIsa(), best->name);
}

TEST_F(IsaTest, EachDetectedOneCanBeForcedAndRuns) {
  for (const Isa& isa : CompiledIsas()) {
    if (!isa.detected) continue;
    ForceIsaByName(isa.name);
    EXPECT_EQ(ChosenIsa(), isa.name);
    const float x[] = {3, 4};
    const float w[] = {1, 2};
    float y[2];
    RmsNorm(x, w, 0, y, 2);
    EXPECT_NEAR(y[0], 3 / std::sqrt(12.5), 1e-6);
    EXPECT_NEAR(y[1], 8 / std::sqrt(12.5), 1e-6);
  }
}

TEST_F(IsaTest, ForcingOneDoesNotHideTheOthers) {
  const auto detected = [] {
    std::vector<std::string> names;
    for (const Isa& isa : CompiledIsas()) {
      if (isa.detected) names.push_back(isa.name);
    }
    return names;
  };
  const std::vector<std::string> all = detected();
  for (const std::string& name : all) {
    ForceIsaByName(name);
    EXPECT_EQ(detected(), all) << name;
  }
}

TEST_F(IsaTest, UnknownNameListsTheChoices) {
  for (const char* name : {"avx1024", "AVX2", " avx2", "auto"}) {
    ExpectError(ErrorCode::kUsage, {name, before_.c_str()}, [&] { ForceIsaByName(name); });
    EXPECT_EQ(ChosenIsa(), before_) << "a failed call changed the choice";
  }
}

TEST_F(IsaTest, TablesAreComplete) {
  EXPECT_STREQ(FastKernels().name, "highway");
  EXPECT_STREQ(ReferenceKernels().name, "reference");
  for (const KernelTable* t : {&FastKernels(), &ReferenceKernels()}) {
    EXPECT_NE(t->matmul_nt, nullptr);
    EXPECT_NE(t->from_float, nullptr);
    EXPECT_NE(t->matmul_nt, t->matmul_nn);
  }
  EXPECT_EQ(ReferenceKernels().matmul_nt, &reference::MatmulNt);
  EXPECT_EQ(FastKernels().matmul_nt, &MatmulNt);
}

}  // namespace
}  // namespace mla
