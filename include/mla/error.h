// The one exception type of the library, with the codes that programs can act on.
// Called by: every room; applications catch mla::Error at the edge.
// Thread-safety: immutable after construction.
#ifndef MLA_ERROR_H_
#define MLA_ERROR_H_

#include <stdexcept>
#include <string>

namespace mla {

/// What kind of fault an Error reports. The values are stable.
enum class ErrorCode {
  kUsage = 1,        ///< an option or argument is malformed or contradictory
  kNotFound = 2,     ///< a file or directory does not exist or cannot be opened for reading
  kBadInput = 3,     ///< a file, prompt or token list is malformed
  kUnsupported = 4,  ///< well-formed, but outside of what this build can do
  kContextFull = 5,  ///< the tokens do not fit into the session's context
  kNumeric = 6,      ///< a NaN or infinity appeared while computing
  kIo = 7,           ///< writing failed
  kResource = 8,     ///< memory, threads or another system resource is exhausted
  kInternal = 9,     ///< a broken invariant: a defect of this library
};

/// Stable lower-case name of a code, e.g. "bad_input".
const char* ErrorCodeName(ErrorCode code) noexcept;

/// Process exit status that the command line uses for a code:
/// 2 for kUsage, kNotFound, kBadInput, kUnsupported; 1 for the others.
int ExitStatus(ErrorCode code) noexcept;

/// Thrown for every fault that a caller can cause. The message names the thing, what was
/// expected, what was found and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace mla

#endif  // MLA_ERROR_H_
