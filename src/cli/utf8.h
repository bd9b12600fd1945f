// Checks that text handed in from outside is UTF-8.
// Called by: prompt, generate. Thread-safety: stateless.
#ifndef MLA_CLI_UTF8_H_
#define MLA_CLI_UTF8_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace mla {

/// Offset of the first byte that is not part of a well-formed character (overlong forms, surrogates
/// and values above U+10FFFF are ill-formed), or nothing.
std::optional<size_t> FirstInvalidUtf8(std::string_view text);

/// Throws kBadInput naming `what`, the offset and the byte if `text` is not UTF-8.
void RequireUtf8(std::string_view text, std::string_view what);

}  // namespace mla

#endif  // MLA_CLI_UTF8_H_
