// The "decoder" component of tokenizer.json: token strings back to text.
// Called by: tokenizer, stream_decoder. Thread-safety: immutable after parsing.
#ifndef MLA_TOKENIZER_DECODER_H_
#define MLA_TOKENIZER_DECODER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_json.h"

namespace mla {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Rewrites token strings; their concatenation is the text.
  virtual void Apply(std::vector<std::string>* tokens) const = 0;
  /// Whether the text is nothing but the tokens' ByteLevelBytes, so that it can be decoded token by
  /// token.
  virtual bool IsByteLevel() const { return false; }
};

/// Null for a null component. Throws kBadInput or kUnsupported.
std::unique_ptr<const Decoder> ParseDecoder(const JsonValue* component);

/// Appends the bytes of a token written in the byte-level alphabet, or the token itself if it has
/// any other character.
void AppendByteLevelBytes(std::string_view token, std::string* bytes);

}  // namespace mla

#endif  // MLA_TOKENIZER_DECODER_H_
