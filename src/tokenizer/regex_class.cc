#include "tokenizer/regex_class.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

constexpr int kMaxClassDepth = 16;

}  // namespace

void ClassParser::FailAt(size_t position, std::string_view why) const {
  Fail(ErrorCode::kUnsupported, "regular expression '{}': {} at byte {}", pattern_.substr(0, 200),
       why, position);
}

CharUnion ClassParser::Property(std::string_view name, bool negated, size_t position) const {
  auto set = PropertySet(name, negated);
  if (!set) FailAt(position, "unknown character property");
  return *set;
}

std::optional<CharUnion> ClassParser::ParseSetEscape(size_t* position) const {
  if (*position >= pattern_.size()) FailAt(*position, "pattern ends after a backslash");
  const char c = pattern_[*position];
  const bool upper = c >= 'A' && c <= 'Z';
  if (c != 'p' && c != 'P') {
    auto set = ShorthandSet(upper ? static_cast<char>(c - 'A' + 'a') : c, upper);
    if (set) ++*position;
    return set;
  }
  const size_t start = *position;
  size_t open = start + 1;
  bool negated = upper;
  if (open < pattern_.size() && pattern_[open] != '{') {  // \pL
    *position = open + 1;
    return Property(pattern_.substr(open, 1), negated, start);
  }
  const size_t close = pattern_.find('}', open);
  if (close == std::string_view::npos) FailAt(start, "unterminated \\p{");
  std::string_view name = pattern_.substr(open + 1, close - open - 1);
  if (!name.empty() && name.front() == '^') {
    negated = !negated;
    name.remove_prefix(1);
  }
  *position = close + 1;
  return Property(name, negated, start);
}

char32_t ClassParser::ParseCharEscape(size_t* position) const {
  const size_t start = *position;
  if (start >= pattern_.size()) FailAt(start, "pattern ends after a backslash");
  const auto hex = [&](size_t from, size_t most, size_t* end) {
    uint32_t value = 0;
    size_t i = from;
    for (; i < pattern_.size() && i < from + most; ++i) {
      const auto digit = static_cast<unsigned char>(pattern_[i]);
      if (std::isxdigit(digit) == 0) break;
      value = value * 16 + static_cast<uint32_t>(std::isdigit(digit) != 0
                                                     ? digit - '0'
                                                     : std::tolower(digit) - 'a' + 10);
    }
    if (i == from) FailAt(start, "no hexadecimal digits");
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
      FailAt(start, "not a Unicode character");
    }
    *end = i;
    return static_cast<char32_t>(value);
  };
  const Utf8Char c = CharAt(pattern_, start);
  *position = start + c.size;
  switch (c.code) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case 'e':
      return 0x1b;
    case '0': {
      char32_t value = 0;
      for (int i = 0; i < 2 && *position < pattern_.size(); ++i) {
        const char digit = pattern_[*position];
        if (digit < '0' || digit > '7') break;
        value = value * 8 + static_cast<char32_t>(digit - '0');
        ++*position;
      }
      return value;
    }
    case 'u':
      return hex(start + 1, 4, position);
    case 'x': {
      if (start + 1 < pattern_.size() && pattern_[start + 1] == '{') {
        const char32_t value = hex(start + 2, 8, position);
        if (*position >= pattern_.size() || pattern_[*position] != '}') {
          FailAt(start, "unterminated \\x{");
        }
        ++*position;
        return value;
      }
      const char32_t value = hex(start + 1, 2, position);
      if (value >= 0x80) FailAt(start, "a byte escape above \\x7f");
      return value;
    }
    default:
      return c.code;
  }
}

CharUnion ClassParser::ParsePosix(size_t* position) const {
  const size_t start = *position;  // behind "[:"
  const size_t close = pattern_.find(":]", start);
  std::string_view name = pattern_.substr(start, close - start);
  const bool negated = !name.empty() && name.front() == '^';
  if (negated) name.remove_prefix(1);
  *position = close + 2;
  auto set = PosixSet(name, negated);
  if (!set) FailAt(start, "unknown character class");
  return *set;
}

void ClassParser::ParseItem(size_t* position, CharUnion* set, int depth) const {
  const auto add = [set](const CharUnion& more) {
    set->bracket += more.bracket;
    set->others.insert(set->others.end(), more.others.begin(), more.others.end());
  };
  const auto one_char = [&](char32_t* code) {  // false: a set was added instead
    if (pattern_[*position] != '\\') {
      const Utf8Char c = CharAt(pattern_, *position);
      *position += c.size;
      *code = c.code;
      return true;
    }
    ++*position;
    if (auto more = ParseSetEscape(position)) {
      add(*more);
      return false;
    }
    if (*position < pattern_.size() && pattern_[*position] == 'b') {
      ++*position;
      *code = '\b';
      return true;
    }
    *code = ParseCharEscape(position);
    return true;
  };
  if (pattern_[*position] == '[') {
    const size_t close = pattern_.find(":]", *position);
    if (pattern_.substr(*position, 2) == "[:" && close != std::string_view::npos &&
        pattern_.substr(*position, close - *position).find(']') == std::string_view::npos) {
      *position += 2;
      add(ParsePosix(position));
    } else {
      ++*position;
      set->others.push_back(ParseClass(position, depth + 1));
    }
    return;
  }
  char32_t first = 0;
  if (!one_char(&first)) return;
  char32_t last = first;
  const std::string_view rest = pattern_.substr(std::min(*position, pattern_.size()));
  if (rest.size() >= 2 && rest[0] == '-' && rest[1] != ']' && rest[1] != '[') {
    ++*position;
    if (!one_char(&last)) {  // [a-\d]: the hyphen is itself
      set->bracket += HexEscape(first) + HexEscape('-');
      return;
    }
    if (last < first) FailAt(*position, "empty range in a character class");
  }
  AppendRange(&set->bracket, first, last);
}

std::string ClassParser::ParseClass(size_t* position) const { return ParseClass(position, 0); }

std::string ClassParser::ParseClass(size_t* position, int depth) const {
  if (depth > kMaxClassDepth) FailAt(*position, "character classes nested too deeply");
  const size_t start = *position;
  const bool negated = start < pattern_.size() && pattern_[start] == '^';
  if (negated) ++*position;
  std::vector<CharUnion> conjuncts(1);
  for (bool first = true;; first = false) {
    if (*position >= pattern_.size()) FailAt(start, "unterminated character class");
    if (pattern_[*position] == ']' && !first) break;
    if (pattern_.substr(*position, 2) == "&&") {
      *position += 2;
      conjuncts.emplace_back();
      continue;
    }
    ParseItem(position, &conjuncts.back(), depth);
  }
  ++*position;
  for (const CharUnion& set : conjuncts) {
    if (set.empty()) FailAt(start, "empty operand in a character class");
  }
  if (conjuncts.size() == 1) {
    return negated ? conjuncts.front().Negated() : conjuncts.front().Expression();
  }
  std::string all = "(?:";
  for (size_t i = 1; i < conjuncts.size(); ++i) all += "(?=" + conjuncts[i].Expression() + ")";
  all += conjuncts.front().Expression() + ")";
  return negated ? "(?:(?!" + all + ")(?s:.))" : all;
}

}  // namespace mla
