// Text to token ids and back, as Hugging Face's tokenizer.json describes it (byte-level BPE).
// Called by: engine, cli. Thread-safety: Tokenizer is immutable after loading and may be shared by
// threads; a StreamDecoder belongs to one stream.
#ifndef MLA_TOKENIZER_TOKENIZER_H_
#define MLA_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mla {

struct EncodeOptions {
  bool add_special = true;  ///< apply the post-processor (BOS ...)
  /// Special added tokens in the text match as tokens. When false they are ordinary text; added
  /// tokens with special=false still match, as in Hugging Face.
  bool parse_special = true;
};

class Tokenizer {
 public:
  /// Reads tokenizer.json and, if present, tokenizer_config.json in `directory`. Throws kNotFound
  /// without a tokenizer.json, kBadInput for malformed files, kUnsupported for a component that
  /// this build does not implement.
  static std::shared_ptr<const Tokenizer> Load(const std::string& directory);

  /// The same from the files' contents. An empty `tokenizer_config_json` means that there is none.
  static std::shared_ptr<const Tokenizer> FromJson(std::string_view tokenizer_json,
                                                   std::string_view tokenizer_config_json = {});

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Token ids of `text`. Each maximal invalid part of the UTF-8 becomes U+FFFD first. Throws
  /// kBadInput if the text is longer than 1 GiB or if the file's own regular expression exceeds
  /// its match limits on this text.
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Encode with the special tokens and at most one BOS in front: the post-processor's, else one
  /// where tokenizer_config.json says add_bos_token, also if the text itself begins with BOS.
  std::vector<int32_t> EncodePrompt(std::string_view text) const;

  /// Text of `ids`, valid UTF-8 (bytes that form no character become U+FFFD). An id below
  /// vocab_size() without a token adds nothing. Throws kBadInput for any other unknown id.
  std::string Decode(std::span<const int32_t> ids, bool skip_special = false) const;

  int64_t vocab_size() const;  ///< highest id + 1, added tokens included
  std::optional<int32_t> TokenToId(std::string_view token) const;
  std::optional<std::string> IdToToken(int32_t id) const;
  bool IsSpecial(int32_t id) const;  ///< an added token with special=true

  /// Ids of tokenizer_config.json's bos_token and eos_token, if named there and in the vocabulary.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;

 private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

/// Decodes a growing sequence of ids. What it returned, concatenated, equals Decode of all ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = false);

  /// Text that became complete with `id`; empty while the text so far ends inside a character. An
  /// id outside of the vocabulary adds nothing: a model may have more rows than its tokenizer.
  std::string Push(int32_t id);

  /// The rest, incomplete bytes as U+FFFD. The decoder is then as new.
  std::string Flush();

 private:
  std::string PushGeneral();
  std::string DecodeTokens(const std::vector<std::string>& tokens) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::string pending_bytes_;        // byte-level decoders: bytes not yet returned
  std::vector<std::string> window_;  // other decoders: tokens that may still influence the text
  std::string prefix_;               // text of the first prefix_tokens_ of window_
  size_t prefix_tokens_ = 0;
};

}  // namespace mla

#endif  // MLA_TOKENIZER_TOKENIZER_H_
