#include <algorithm>
#include <utility>

#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// Whether the text ends with a whole character other than U+FFFD. As the reference does, text that
/// ends in U+FFFD is held back: bytes to come may turn it into something else.
bool EndsComplete(std::string_view bytes) {
  if (bytes.ends_with(kReplacement)) return false;
  for (size_t length = 1; length <= 4 && length <= bytes.size(); ++length) {
    const size_t position = bytes.size() - length;
    if ((static_cast<unsigned char>(bytes[position]) & 0xc0) == 0x80) continue;
    size_t bad = 0;
    return ValidUtf8Length(bytes, position, &bad) == length;
  }
  return false;
}

/// What `text` adds to `prefix`. Later tokens can change earlier text (a run of byte tokens that
/// turns out invalid); then the cut moves to the next whole character.
std::string Addition(const std::string& text, const std::string& prefix) {
  size_t from = std::min(prefix.size(), text.size());
  while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) ++from;
  return text.substr(from);
}

}  // namespace

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string StreamDecoder::Push(int32_t id) {
  const Tokenizer::Impl& impl = *tokenizer_->impl_;
  const std::string* token = impl.IdToToken(id);
  if (token == nullptr || (skip_special_ && impl.added.IsSpecial(*token))) return {};
  if (impl.decoder != nullptr && impl.decoder->IsByteLevel()) {
    AppendByteLevelBytes(*token, &pending_bytes_);
    if (!EndsComplete(pending_bytes_)) return {};
    return ReplaceInvalidUtf8(std::exchange(pending_bytes_, {}));
  }
  window_.push_back(*token);
  return PushGeneral();
}

std::string StreamDecoder::PushGeneral() {
  const std::string text = DecodeTokens(window_);
  if (text.size() <= prefix_.size() || text.ends_with(kReplacement)) return {};
  std::string fresh = Addition(text, prefix_);
  // Keep the tokens behind the previous cut as context for the next ones.
  window_.erase(window_.begin(), window_.begin() + static_cast<int64_t>(prefix_tokens_));
  prefix_ = DecodeTokens(window_);
  prefix_tokens_ = window_.size();
  return fresh;
}

std::string StreamDecoder::Flush() {
  std::string rest;
  if (!window_.empty()) rest = Addition(DecodeTokens(window_), prefix_);
  rest += ReplaceInvalidUtf8(std::exchange(pending_bytes_, {}));
  window_.clear();
  prefix_.clear();
  prefix_tokens_ = 0;
  return rest;
}

std::string StreamDecoder::DecodeTokens(const std::vector<std::string>& tokens) const {
  std::vector<std::string> parts = tokens;
  const Decoder* decoder = tokenizer_->impl_->decoder.get();
  if (decoder != nullptr) decoder->Apply(&parts);
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (decoder == nullptr && i > 0) text += ' ';
    text += parts[i];
  }
  return text;
}

}  // namespace mla
