// Parser of one Oniguruma character class or character escape, written out again for PCRE2.
// Called by: regex_translate. Thread-safety: plain values.
#ifndef MLA_TOKENIZER_REGEX_CLASS_H_
#define MLA_TOKENIZER_REGEX_CLASS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/regex_property.h"

namespace mla {

/// Reads Oniguruma (Ruby syntax) class syntax from a pattern.
class ClassParser {
 public:
  explicit ClassParser(std::string_view pattern) : pattern_(pattern) {}

  /// Parses a class; *position is behind its '[' before and behind its ']' after. Returns a PCRE2
  /// expression for one character.
  std::string ParseClass(size_t* position) const;

  /// Parses an escape that stands for a set of characters (\s \p{L} ...); *position is behind the
  /// backslash before and behind the escape after. Nothing if it is not such an escape.
  std::optional<CharUnion> ParseSetEscape(size_t* position) const;

  /// Parses an escape that stands for one character (\n \x41 \u00e9 \- ...), same positions.
  char32_t ParseCharEscape(size_t* position) const;

  [[noreturn]] void FailAt(size_t position, std::string_view why) const;

 private:
  CharUnion ParsePosix(size_t* position) const;
  void ParseItem(size_t* position, CharUnion* set, int depth) const;
  std::string ParseClass(size_t* position, int depth) const;
  CharUnion Property(std::string_view name, bool negated, size_t position) const;

  std::string_view pattern_;
};

}  // namespace mla

#endif  // MLA_TOKENIZER_REGEX_CLASS_H_
