#include "mla/error.h"

#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/check.h"
#include "mla/version.h"
#include "support/expect_error.h"

namespace mla {
namespace {

TEST(Error, EveryCodeHasItsOwnNameAndAnExitStatus) {
  std::set<std::string> names;
  for (int code = 1; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    const ErrorCode c = static_cast<ErrorCode>(code);
    EXPECT_TRUE(names.insert(ErrorCodeName(c)).second) << code;
    EXPECT_TRUE(ExitStatus(c) == 1 || ExitStatus(c) == 2);
  }
  EXPECT_EQ(ExitStatus(ErrorCode::kUsage), 2);
  EXPECT_EQ(ExitStatus(ErrorCode::kBadInput), 2);
  EXPECT_EQ(ExitStatus(ErrorCode::kIo), 1);
  EXPECT_EQ(ExitStatus(ErrorCode::kNumeric), 1);
}

TEST(Check, ArithmeticRefusesOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(CheckedMul(3, 5, "x"), 15);
  EXPECT_EQ(CheckedMul(kMost, 1, "x"), kMost);
  EXPECT_EQ(CheckedAdd(kMost - 1, 1, "x"), kMost);
  ExpectError(ErrorCode::kBadInput, {"weights", "does not fit"},
              [] { CheckedMul(kMost / 2, 3, "weights"); });
  ExpectError(ErrorCode::kBadInput, {"does not fit"}, [] { CheckedMul(-1, 3, "x"); });
  ExpectError(ErrorCode::kBadInput, {"does not fit"}, [] { CheckedAdd(kMost, 1, "x"); });
  ExpectError(ErrorCode::kInternal, {"internal error: broken"}, [] { Require(false, "broken"); });
}

TEST(Version, IsTheHeaders) { EXPECT_STREQ(Version(), MLA_VERSION); }

}  // namespace
}  // namespace mla
