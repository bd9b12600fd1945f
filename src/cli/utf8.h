// Checks that text handed in from outside is UTF-8.
// Called by: prompt, json, generate. Thread-safety: stateless.
#ifndef MLA_CLI_UTF8_H_
#define MLA_CLI_UTF8_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace mla {

/// Length of the well-formed character that starts `text` (not empty), 0 if there is none; Unicode
/// standard, table 3-7.
size_t Utf8Length(std::string_view text);

/// Offset of the first byte that is not part of a well-formed character (overlong forms, surrogates
/// and values above U+10FFFF are ill-formed), or nothing.
std::optional<size_t> FirstInvalidUtf8(std::string_view text);

/// Throws kBadInput naming `what`, the offset and the byte if `text` is not UTF-8.
void RequireUtf8(std::string_view text, std::string_view what);

}  // namespace mla

#endif  // MLA_CLI_UTF8_H_
