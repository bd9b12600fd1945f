// Throwing helpers and checked integer arithmetic.
// Called by: every room. Thread-safety: stateless.
#ifndef MLA_BASE_CHECK_H_
#define MLA_BASE_CHECK_H_

#include <cstdint>
#include <string_view>

#include <fmt/core.h>

#include "mla/error.h"

namespace mla {

/// Throws Error{code} with a message in fmt syntax.
template <typename... Args>
[[noreturn]] void Fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error{kInternal} if a condition that only a defect can break does not hold.
inline void Require(bool condition, std::string_view what) {
  if (!condition) Fail(ErrorCode::kInternal, "internal error: {}", what);
}

/// a·b and a+b over non-negative values. `what` names the quantity in the error message.
/// Throws kBadInput if an operand is negative or the result does not fit.
inline int64_t CheckedMul(int64_t a, int64_t b, std::string_view what) {
  int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) {
    Fail(ErrorCode::kBadInput, "{}: {} x {} does not fit in 63 bits", what, a, b);
  }
  return product;
}

inline int64_t CheckedAdd(int64_t a, int64_t b, std::string_view what) {
  int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) {
    Fail(ErrorCode::kBadInput, "{}: {} + {} does not fit in 63 bits", what, a, b);
  }
  return sum;
}

}  // namespace mla

#endif  // MLA_BASE_CHECK_H_
