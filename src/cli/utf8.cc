#include "cli/utf8.h"

#include <cstdint>

#include "base/check.h"

namespace mla {

size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

std::optional<size_t> FirstInvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

void RequireUtf8(std::string_view text, std::string_view what) {
  if (const std::optional<size_t> at = FirstInvalidUtf8(text)) {
    Fail(ErrorCode::kBadInput,
         "{}: expected UTF-8 text, found the invalid byte 0x{:02x} at offset {}; convert the text "
         "to UTF-8 first",
         what, static_cast<uint8_t>(text[*at]), *at);
  }
}

}  // namespace mla
