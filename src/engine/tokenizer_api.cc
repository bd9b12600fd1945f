#include <utility>

#include "mla/tools.h"
#include "tokenizer/tokenizer.h"

namespace mla {

struct TextCodec::State {
  std::shared_ptr<const Tokenizer> tokenizer;
};

TextCodec TextCodec::Load(const std::string& directory) {
  TextCodec codec;
  codec.state_ = std::make_shared<const State>(State{Tokenizer::Load(directory)});
  return codec;
}

std::vector<int32_t> TextCodec::Encode(std::string_view text, bool add_special,
                                       bool parse_special) const {
  return state_->tokenizer->Encode(text,
                                   {.add_special = add_special, .parse_special = parse_special});
}

std::string TextCodec::Decode(std::span<const int32_t> tokens, bool skip_special) const {
  return state_->tokenizer->Decode(tokens, skip_special);
}

}  // namespace mla
