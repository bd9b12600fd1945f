// Hexadecimal text to bytes.
// Called by: tokenize. Thread-safety: stateless.
#ifndef MLA_CLI_HEX_H_
#define MLA_CLI_HEX_H_

#include <string>
#include <string_view>

namespace mla {

/// "68c3" -> two bytes, either case. Throws kBadInput naming `what` for anything but pairs of
/// hexadecimal digits.
std::string ParseHex(std::string_view text, std::string_view what);

}  // namespace mla

#endif  // MLA_CLI_HEX_H_
