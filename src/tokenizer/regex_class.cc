#include "tokenizer/regex_class.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

constexpr int kMaxClassDepth = 16;

constexpr std::string_view kWhitespace =
    R"(\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

struct NamePair {
  std::string_view name;  // lower case, without separators
  std::string_view value;
};

constexpr auto kCategories = std::to_array<NamePair>({
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"cntrl", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
});

// Binary properties that PCRE2 knows under the same name, with the categories whose newer members
// have the property too.
constexpr auto kBinary = std::to_array<NamePair>({
    {"alphabetic", "L"},
    {"uppercase", "Lu"},
    {"lowercase", "Ll"},
    {"math", "Sm"},
    {"emoji", ""},
    {"emojipresentation", ""},
    {"emojimodifier", ""},
    {"emojimodifierbase", ""},
    {"extendedpictographic", ""},
    {"idstart", "L"},
    {"idcontinue", "L"},
    {"xidstart", "L"},
    {"xidcontinue", "L"},
    {"ideographic", ""},
    {"dash", "Pd"},
});

std::string Canonical(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return out;
}

void AppendRange(std::string* out, char32_t first, char32_t last) {
  *out += HexEscape(first);
  if (last != first) *out += "-" + HexEscape(last);
}

/// Bracket content for the code points of a category ("L", "Lu") that PCRE2 may be too old to know.
std::string NewerMembers(std::string_view category) {
  std::string out;
  const auto ranges = CategoriesSinceUnicode14();
  const auto member = [&](const CategoryRange& range) {
    return std::string_view(CategoryName(range.category)).substr(0, category.size()) == category;
  };
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (!member(ranges[i])) continue;
    const char32_t first = ranges[i].first;
    while (i + 1 < ranges.size() && ranges[i + 1].first == ranges[i].last + 1 &&
           member(ranges[i + 1])) {
      ++i;
    }
    AppendRange(&out, first, ranges[i].last);
  }
  return out;
}

std::string CategoryBracket(std::string_view category) {
  return "\\p{" + std::string(category) + "}" + NewerMembers(category);
}

std::string WordBracket() {
  std::string out;
  for (const char* category : {"L", "M", "Nd", "Nl", "Pc"}) out += CategoryBracket(category);
  // Alphabetic, but none of the above: circled and squared letters.
  return out + R"(\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
}

CharUnion MakeSet(std::string bracket, bool negated) {
  CharUnion set;
  if (negated) {
    set.others.push_back("[^" + bracket + "]");
  } else {
    set.bracket = std::move(bracket);
  }
  return set;
}

bool IsCategory(std::string_view name) {
  static constexpr std::string_view kShort[] = {
      "L",  "M",  "N",  "P",  "S",  "Z",  "C",  "Lu", "Ll", "Lt", "Lm", "Lo",
      "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf",
      "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cn", "Co"};
  return std::find(std::begin(kShort), std::end(kShort), name) != std::end(kShort);
}

}  // namespace

std::string HexEscape(char32_t code) {
  return fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(code));
}

std::string CharUnion::Expression() const {
  if (others.empty()) return "[" + bracket + "]";
  if (bracket.empty() && others.size() == 1) return others.front();
  std::string out = "(?>";
  if (!bracket.empty()) out += "[" + bracket + "]|";
  for (size_t i = 0; i < others.size(); ++i) out += (i == 0 ? "" : "|") + others[i];
  return out + ")";
}

std::string CharUnion::Negated() const {
  if (others.empty()) return "[^" + bracket + "]";
  return "(?:(?!" + Expression() + ")(?s:.))";
}

void ClassParser::FailAt(size_t position, std::string_view why) const {
  Fail(ErrorCode::kUnsupported, "regular expression '{}': {} at byte {}", pattern_.substr(0, 200),
       why, position);
}

CharUnion ClassParser::Property(std::string_view name, bool negated, size_t position) const {
  const std::string plain = Canonical(name);
  std::string category(name);
  if (!plain.empty() && plain.size() <= 2) {
    category = plain;
    category[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(category[0])));
  }
  for (const NamePair& pair : kCategories) {
    if (pair.name == plain) category = pair.value;
  }
  if (category == "C" || category == "Cn") {
    // What newer versions assign is no longer unassigned.
    std::string assigned;
    for (const CategoryRange& range : CategoriesSinceUnicode14()) {
      if (CategoryName(range.category)[0] != 'C') AppendRange(&assigned, range.first, range.last);
    }
    CharUnion set;
    if (negated) {
      set.bracket = assigned;
      set.others.push_back("\\P{" + category + "}");
    } else {
      set.others.push_back("(?:(?![" + assigned + "])\\p{" + category + "})");
    }
    return set;
  }
  if (IsCategory(category)) return MakeSet(CategoryBracket(category), negated);
  if (plain == "any") return MakeSet("\\x{0}-\\x{10ffff}", negated);
  if (plain == "ascii") return MakeSet("\\x{0}-\\x{7f}", negated);
  if (plain == "lc" || plain == "l&" || plain == "casedletter") {
    return MakeSet(CategoryBracket("Lu") + CategoryBracket("Ll") + CategoryBracket("Lt"), negated);
  }
  if (plain == "space" || plain == "whitespace") return MakeSet(std::string(kWhitespace), negated);
  if (plain == "word") return MakeSet(WordBracket(), negated);
  if (plain == "alpha") return Property("Alphabetic", negated, position);
  if (plain == "upper") return Property("Uppercase", negated, position);
  if (plain == "lower") return Property("Lowercase", negated, position);
  if (plain == "xdigit") return MakeSet(std::string(kHexDigits), negated);
  if (plain == "blank") return MakeSet("\\t" + CategoryBracket("Zs"), negated);
  if (plain == "punct") return MakeSet(CategoryBracket("P") + "$+<=>\\^`|~", negated);
  if (plain == "alnum") {
    return MakeSet("\\p{Alphabetic}" + NewerMembers("L") + CategoryBracket("Nd"), negated);
  }
  for (const NamePair& pair : kBinary) {
    if (pair.name != plain) continue;
    const std::string newer = pair.value.empty() ? std::string() : NewerMembers(pair.value);
    return MakeSet("\\p{" + plain + "}" + newer, negated);
  }
  const bool is_name = !plain.empty() && std::all_of(plain.begin(), plain.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
  });
  if (!is_name) FailAt(position, "unknown character property");
  // Scripts: the Script property, not PCRE2's default Script_Extensions.
  std::string bracket = "\\p{sc:" + plain + "}";
  if (plain == "han") bracket += "\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";
  return MakeSet(bracket, negated);
}

std::optional<CharUnion> ClassParser::ParseSetEscape(size_t* position) const {
  if (*position >= pattern_.size()) FailAt(*position, "pattern ends after a backslash");
  const char c = pattern_[*position];
  const auto take = [&](std::string bracket, bool negated) {
    ++*position;
    return MakeSet(std::move(bracket), negated);
  };
  switch (c) {
    case 's':
    case 'S':
      return take(std::string(kWhitespace), c == 'S');
    case 'd':
    case 'D':
      return take(CategoryBracket("Nd"), c == 'D');
    case 'w':
    case 'W':
      return take(WordBracket(), c == 'W');
    case 'h':
    case 'H':  // hexadecimal digits in Oniguruma, horizontal space in PCRE2
      return take(std::string(kHexDigits), c == 'H');
    case 'p':
    case 'P':
      break;
    default:
      return std::nullopt;
  }
  const size_t start = *position;
  size_t open = start + 1;
  bool negated = c == 'P';
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
  return Property(name, negated, start);
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
