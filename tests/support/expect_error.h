// Checks that a call throws mla::Error of one class, with a message that names what it should.
// Called by: tests. Thread-safety: stateless.
#ifndef MLA_TESTS_SUPPORT_EXPECT_ERROR_H_
#define MLA_TESTS_SUPPORT_EXPECT_ERROR_H_

#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include "mla/error.h"

namespace mla {

/// Runs `call` and expects Error{code} whose message contains every one of `parts`.
template <typename Call>
void ExpectError(ErrorCode code, std::initializer_list<const char*> parts, Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_STREQ(ErrorCodeName(error.code()), ErrorCodeName(code)) << error.what();
    for (const char* part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "expected an error of class " << ErrorCodeName(code) << ", none was thrown";
}

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_EXPECT_ERROR_H_
