// The "pre_tokenizer" component of tokenizer.json: cuts text into the pieces that BPE sees.
// Called by: tokenizer. Thread-safety: immutable after parsing.
#ifndef MLA_TOKENIZER_PRETOKENIZER_H_
#define MLA_TOKENIZER_PRETOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_json.h"

namespace mla {

/// A part of PreTokenized::text, or an added token that stands between such parts.
struct Piece {
  size_t begin = 0;
  size_t end = 0;
  int32_t token = -1;     // id of an added token; -1: text
  bool at_start = false;  // begins where the original text begins
};

/// Text on its way to the model: pieces in order, over one buffer.
struct PreTokenized {
  std::string text;
  std::vector<Piece> pieces;

  std::string_view View(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Splits every text piece further; added tokens stay. May rewrite the text.
  virtual void Apply(PreTokenized* text) const = 0;
};

/// Null for a null component. Throws kBadInput or kUnsupported.
std::unique_ptr<const PreTokenizer> ParsePreTokenizer(const JsonValue* component);

}  // namespace mla

#endif  // MLA_TOKENIZER_PRETOKENIZER_H_
