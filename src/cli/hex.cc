#include "cli/hex.h"

#include "base/check.h"

namespace mla {
namespace {

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string ParseHex(std::string_view text, std::string_view what) {
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = Digit(text[i]);
    const int low = i + 1 < text.size() ? Digit(text[i + 1]) : -1;
    if (high < 0 || low < 0) {
      Fail(ErrorCode::kBadInput,
           "{}: expected pairs of hexadecimal digits, found '{}' at offset {}", what,
           text.substr(i, 2), i);
    }
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

}  // namespace mla
