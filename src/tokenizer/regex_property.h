// Character properties and named classes of Oniguruma as PCRE2 brackets, at Unicode 16.
// Called by: regex_class, regex_translate. Thread-safety: plain values.
#ifndef MLA_TOKENIZER_REGEX_PROPERTY_H_
#define MLA_TOKENIZER_REGEX_PROPERTY_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mla {

/// A union of single characters: what can stand inside one PCRE2 bracket, and expressions that
/// cannot (negated properties, nested classes) but match exactly one character each.
struct CharUnion {
  std::string bracket;
  std::vector<std::string> others;

  bool empty() const { return bracket.empty() && others.empty(); }
  /// A PCRE2 expression that matches exactly one character. Alternatives are atomic, so a repeated
  /// class cannot backtrack into them.
  std::string Expression() const;
  /// The same for every other character.
  std::string Negated() const;
};

/// The set of \p{name} or \P{name}: a category, a POSIX name, a binary property or a script.
/// Nothing if the name cannot be one; PCRE2 rejects the scripts that it does not know.
std::optional<CharUnion> PropertySet(std::string_view name, bool negated);

/// The set of [:name:], which differs from \p{name} for punct.
std::optional<CharUnion> PosixSet(std::string_view name, bool negated);

/// The sets of \s, \d, \w and \h ('s', 'd', 'w', 'h'); nothing for another letter.
std::optional<CharUnion> ShorthandSet(char letter, bool negated);

/// "\x{...}" of a code point.
std::string HexEscape(char32_t code);

/// Appends a range, or one character if both ends are the same, for use in a bracket.
void AppendRange(std::string* bracket, char32_t first, char32_t last);

}  // namespace mla

#endif  // MLA_TOKENIZER_REGEX_PROPERTY_H_
