#include "tokenizer/pattern.h"

#include <array>

#include "base/check.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

struct ByteAlphabet {
  std::array<std::string, 256> chars;
  std::array<int, 512> bytes;  // by code point

  ByteAlphabet() {
    bytes.fill(-1);
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const char32_t code = printable ? static_cast<char32_t>(byte) : next++;
      AppendUtf8(&chars[static_cast<size_t>(byte)], code);
      bytes[code] = byte;
    }
  }
};

const ByteAlphabet& Alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

Regex ParsePattern(const JsonValue& component, std::string_view where) {
  const JsonValue& pattern = Need(component, "pattern", where);
  if (!pattern.IsObject()) {
    Fail(ErrorCode::kBadInput, "{}: \"pattern\" must be an object, found {}", where,
         KindName(pattern.kind));
  }
  if (pattern.Find("String") != nullptr) {
    return Regex::FromLiteral(NeedString(pattern, "String", where));
  }
  if (pattern.Find("Regex") != nullptr) {
    return Regex::FromOniguruma(NeedString(pattern, "Regex", where));
  }
  Fail(ErrorCode::kBadInput, "{}: \"pattern\" has neither \"String\" nor \"Regex\"", where);
}

std::string ReplaceAll(const Regex& regex, std::string_view text, std::string_view content) {
  std::vector<Span> matches;
  regex.FindAll(text, &matches);
  std::string out;
  size_t from = 0;
  for (const Span& match : matches) {
    out.append(text, from, match.begin - from);
    out += content;
    from = match.end;
  }
  out.append(text, from);
  return out;
}

std::string_view ByteLevelChar(unsigned char byte) { return Alphabet().chars[byte]; }

int ByteLevelByte(char32_t code) {
  const auto& bytes = Alphabet().bytes;
  return code < bytes.size() ? bytes[code] : -1;
}

}  // namespace mla
