// Arbitrary bytes as tokenizer.json (and, behind a NUL byte, tokenizer_config.json and a text):
// loading either throws mla::Error or gives a tokenizer that encodes and decodes without a crash.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mla/error.h"
#include "tokenizer/tokenizer.h"

namespace {

constexpr size_t kMaxInput = 1 << 16;  // the reference files are larger; structure is what matters

void Check(bool condition) {
  if (!condition) __builtin_trap();
}

void EncodeAndDecode(const std::shared_ptr<const mla::Tokenizer>& tokenizer,
                     std::string_view text) {
  std::vector<int32_t> ids;
  try {
    for (const bool parse_special : {true, false}) {
      ids = tokenizer->Encode(text, {.parse_special = parse_special});
    }
    ids = tokenizer->EncodePrompt(text);
    for (const bool skip_special : {false, true}) {
      mla::StreamDecoder stream(tokenizer, skip_special);
      for (const int32_t id : ids) stream.Push(id);
      stream.Flush();
      tokenizer->Decode(ids, skip_special);
    }
  } catch (const mla::Error& e) {
    Check(e.code() != mla::ErrorCode::kInternal);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kMaxInput) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t first = input.find('\0');
  const std::string_view rest = first == input.npos ? std::string_view() : input.substr(first + 1);
  const size_t second = rest.find('\0');
  const std::string_view text =
      second == rest.npos ? std::string_view() : rest.substr(second + 1, 256);
  try {
    const auto tokenizer = mla::Tokenizer::FromJson(input.substr(0, first), rest.substr(0, second));
    Check(tokenizer->vocab_size() >= 0);
    EncodeAndDecode(tokenizer, text);
    EncodeAndDecode(tokenizer,
                    "Hello, world! 12345  \n\t\xe4\xbd\xa0\xf0\x9f\x98\x80\xff<s></s> don't");
    EncodeAndDecode(tokenizer, std::string(200, 'a'));
  } catch (const mla::Error& e) {
    Check(e.code() != mla::ErrorCode::kInternal);
  }
  return 0;
}
