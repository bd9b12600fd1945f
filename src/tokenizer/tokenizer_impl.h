// What a Tokenizer is made of.
// Called by: tokenizer and stream_decoder only. Thread-safety: immutable after construction.
#ifndef MLA_TOKENIZER_TOKENIZER_IMPL_H_
#define MLA_TOKENIZER_TOKENIZER_IMPL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"

namespace mla {

struct Tokenizer::Impl {
  /// Throws as Tokenizer::Load does. `config` may be null.
  Impl(const JsonValue& file, const JsonValue* config);

  std::optional<int32_t> TokenToId(std::string_view token) const;
  const std::string* IdToToken(int32_t id) const;  // nullptr if no token has this id
  bool IsSpecial(int32_t id) const;
  int64_t vocab_size() const;

  Bpe model;
  std::unique_ptr<const Normalizer> normalizer;
  AddedTokens added;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  PostProcessor post_processor;
  std::unique_ptr<const Decoder> decoder;
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  bool add_bos_token = false;
};

}  // namespace mla

#endif  // MLA_TOKENIZER_TOKENIZER_IMPL_H_
