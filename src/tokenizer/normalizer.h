// The "normalizer" component of tokenizer.json: text to text, before anything is split.
// Called by: added_tokens, tokenizer. Thread-safety: immutable after parsing.
#ifndef MLA_TOKENIZER_NORMALIZER_H_
#define MLA_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/tokenizer_json.h"

namespace mla {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// `text` is valid UTF-8, and so is the result.
  virtual std::string Apply(std::string_view text) const = 0;
};

/// Null for a null component. Throws kBadInput or kUnsupported.
std::unique_ptr<const Normalizer> ParseNormalizer(const JsonValue* component);

}  // namespace mla

#endif  // MLA_TOKENIZER_NORMALIZER_H_
