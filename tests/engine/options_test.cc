#include "mla/options.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace mla {
namespace {

void Set(const char* name, const char* value) {
  if (value == nullptr) {
    unsetenv(name);
  } else {
    setenv(name, value, 1);
  }
}

class Switches : public ::testing::Test {
 protected:
  void TearDown() override {
    Set("MLXCEL_MLA_ABSORBED", nullptr);
    Set("MLXCEL_MLA_SPLIT_KV", nullptr);
  }
};

TEST_F(Switches, ParseTable) {
  for (const char* on : {"1", "true", "on", "yes", "TRUE", "On", "yEs", " 1 ", "\ttrue\n"}) {
    Set("MLXCEL_MLA_ABSORBED", on);
    EXPECT_EQ(AttentionFromEnvironment(), Attention::kAbsorbed) << on;
  }
  for (const char* off :
       {"0", "false", "off", "no", "2", "11", "tru", "enabled", "y", "-1", "1 1", "yes!"}) {
    Set("MLXCEL_MLA_ABSORBED", off);
    EXPECT_EQ(AttentionFromEnvironment(), Attention::kDecompressed) << off;
  }
  for (const char* unset : {"", " ", "\t\n"}) {
    Set("MLXCEL_MLA_ABSORBED", unset);
    EXPECT_EQ(AttentionFromEnvironment(), Attention::kAuto) << unset;
  }
  Set("MLXCEL_MLA_ABSORBED", nullptr);
  EXPECT_EQ(AttentionFromEnvironment(), Attention::kAuto);
}

TEST_F(Switches, SplitNeedsAbsorbed) {
  std::string note;
  Set("MLXCEL_MLA_SPLIT_KV", "1");
  EXPECT_EQ(AttentionFromEnvironment(&note), Attention::kAuto);
  EXPECT_NE(note.find("no effect without MLXCEL_MLA_ABSORBED"), std::string::npos);
  Set("MLXCEL_MLA_ABSORBED", "on");
  EXPECT_EQ(AttentionFromEnvironment(&note), Attention::kSplitKv);
  EXPECT_TRUE(note.empty());
  Set("MLXCEL_MLA_ABSORBED", "off");
  EXPECT_EQ(AttentionFromEnvironment(&note), Attention::kDecompressed);
  EXPECT_FALSE(note.empty());
  Set("MLXCEL_MLA_ABSORBED", "on");
  Set("MLXCEL_MLA_SPLIT_KV", "perhaps");
  EXPECT_EQ(AttentionFromEnvironment(&note), Attention::kAbsorbed);
}

TEST(Options, NamesRoundTrip) {
  for (const Attention a :
       {Attention::kDecompressed, Attention::kAbsorbed, Attention::kSplitKv, Attention::kAuto}) {
    EXPECT_EQ(ParseAttention(AttentionName(a)), a);
  }
  for (const CacheType t : {CacheType::kBf16, CacheType::kF16, CacheType::kF32, CacheType::kInt8}) {
    EXPECT_EQ(ParseCacheType(CacheTypeName(t)), t);
  }
  ExpectError(ErrorCode::kUsage, {"expected one of: decompressed, absorbed, split-kv, auto"},
              [&] { ParseAttention("split_kv"); });
  ExpectError(ErrorCode::kUsage, {"expected one of: bf16, f16, f32, int8"},
              [&] { ParseCacheType("int4"); });
}

}  // namespace
}  // namespace mla
