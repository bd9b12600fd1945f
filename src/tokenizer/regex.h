// Regular expressions of tokenizer files (Oniguruma, Ruby syntax), run by PCRE2.
// Called by: normalizer, pretokenizer. Thread-safety: immutable after construction; matching uses
// scratch memory of the calling thread.
#ifndef MLA_TOKENIZER_REGEX_H_
#define MLA_TOKENIZER_REGEX_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mla {

struct Span {
  size_t begin;
  size_t end;
};

/// The pattern in PCRE2 syntax with the reference's meaning; see docs/decisions/0003. Throws
/// kUnsupported for constructs that have no equivalent. The pattern must be valid UTF-8.
std::string TranslateOniguruma(std::string_view pattern);

class Regex {
 public:
  /// Throws kUnsupported if the pattern cannot be translated or compiled.
  static Regex FromOniguruma(std::string_view pattern);
  /// Matches exactly this text.
  static Regex FromLiteral(std::string_view text);

  /// Appends every match in valid UTF-8 `text`, left to right. Empty matches count, except directly
  /// behind another match. Throws kBadInput when the match limits are exceeded: they grow with the
  /// text's length, so only patterns of exponential cost reach them.
  void FindAll(std::string_view text, std::vector<Span>* matches) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  static Regex Compile(const std::string& translated, std::string_view original);

  std::shared_ptr<const Code> code_;
};

}  // namespace mla

#endif  // MLA_TOKENIZER_REGEX_H_
