#include "base/json_depth.h"

#include <string>

#include <gtest/gtest.h>

namespace mla {
namespace {

TEST(JsonDepth, CountsOpenBracketsOutsideOfStrings) {
  EXPECT_EQ(MaxJsonDepth(""), 0);
  EXPECT_EQ(MaxJsonDepth("1"), 0);
  EXPECT_EQ(MaxJsonDepth("{}"), 1);
  EXPECT_EQ(MaxJsonDepth(R"({"a":[1,{"b":2}],"c":{}})"), 3);
  EXPECT_EQ(MaxJsonDepth(R"({"a":"[[[[{{{{"})"), 1);
  EXPECT_EQ(MaxJsonDepth(R"({"a":"\"[[["})"), 1);
  EXPECT_EQ(MaxJsonDepth(R"(["\\",[[]]])"), 3);
  EXPECT_GE(MaxJsonDepth(std::string(100000, '[')), 1000);
  EXPECT_GE(MaxJsonDepth("]]]]" + std::string(100, '{')), 64);
}

}  // namespace
}  // namespace mla
