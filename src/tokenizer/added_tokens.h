// The "added_tokens" of tokenizer.json: whole strings that are found in the text before the model
// sees it. Called by: tokenizer.
// Thread-safety: immutable after construction.
#ifndef MLA_TOKENIZER_ADDED_TOKENS_H_
#define MLA_TOKENIZER_ADDED_TOKENS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pretokenizer.h"

namespace mla {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  std::string text;  // what it decodes to: the content, normalised if it is matched so
  bool special = false;
  bool normalized = true;    // matched after normalisation
  bool single_word = false;  // not beside word characters
  bool lstrip = false;       // takes the whitespace to its left
  bool rstrip = false;
};

class AddedTokens {
 public:
  /// `component` may be null. Ids are the reference's: the model's id of the same text, else
  /// counted on from the vocabulary's size, whatever the file says. Throws kBadInput.
  AddedTokens(const JsonValue* component, const Bpe& model, const Normalizer* normalizer);

  /// Cuts valid UTF-8 `text` at added tokens and normalises what lies between them.
  /// `parse_special`: as in EncodeOptions.
  PreTokenized Extract(std::string_view text, const Normalizer* normalizer,
                       bool parse_special) const;

  std::optional<int32_t> TokenToId(std::string_view token) const;
  const AddedToken* Find(int32_t id) const;  // nullptr if none
  /// Whether a token with this text is special.
  bool IsSpecial(std::string_view token) const;
  int64_t highest_id() const { return by_id_.empty() ? -1 : by_id_.rbegin()->first; }

 private:
  /// Longest-match search over a set of strings, as a byte trie.
  class Matcher {
   public:
    void Add(std::string_view content, int32_t token);
    /// Token of the longest string that begins at `position`, its length in *length; -1: none.
    int32_t Longest(std::string_view text, size_t position, size_t* length) const;
    bool empty() const { return nodes_.empty(); }

   private:
    struct Node {
      int32_t token = -1;
      std::vector<std::pair<unsigned char, uint32_t>> children;
    };
    std::vector<Node> nodes_;
    bool first_bytes_[256] = {};
  };

  void Insert(AddedToken token, const Bpe& model);
  void Split(std::string_view text, const Matcher& matcher, bool parse_special, size_t offset,
             bool at_start, std::vector<Piece>* pieces) const;

  std::map<int32_t, AddedToken> by_id_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<std::string, bool> special_;
  Matcher raw_;         // tokens matched in the text as it is
  Matcher normalized_;  // tokens matched in normalised text
};

}  // namespace mla

#endif  // MLA_TOKENIZER_ADDED_TOKENS_H_
