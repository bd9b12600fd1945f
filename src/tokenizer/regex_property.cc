#include "tokenizer/regex_property.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/core.h>

#include "tokenizer/unicode.h"

namespace mla {
namespace {

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
  // Alphabetic, but none of the above: circled and squared letters. And Oniguruma's table for
  // Latin-1 counts superscript digits and fractions as word characters.
  return out + R"(\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})"
               R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
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

// What Unicode 15 and 16 added to scripts that pre-tokenizers name (Scripts.txt).
constexpr auto kNewerScriptMembers = std::to_array<NamePair>({
    {"han", R"(\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})"},
    {"hiragana", R"(\x{1b132})"},
    {"katakana", R"(\x{1b155})"},
    {"latin", R"(\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{1df25}-\x{1df2a})"},
    {"cyrillic", R"(\x{1c89}\x{1c8a}\x{1e030}-\x{1e06d}\x{1e08f})"},
    {"arabic", R"(\x{897}\x{10ec2}-\x{10ec4}\x{10efc}-\x{10eff})"},
});

/// Bracket content for what newer versions assign; `visible_only`: outside of category C.
std::string NewlyAssigned(bool visible_only) {
  std::string out;
  for (const CategoryRange& range : CategoriesSinceUnicode14()) {
    if (visible_only && CategoryName(range.category)[0] == 'C') continue;
    AppendRange(&out, range.first, range.last);
  }
  return out;
}

/// Visible characters: all but whitespace, controls, surrogates and what is unassigned.
CharUnion Graph() {
  CharUnion set;
  set.bracket = NewlyAssigned(false);
  set.others.push_back("[^" + std::string(kWhitespace) + "\\p{Cc}\\p{Cs}\\p{Cn}]");
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

void AppendRange(std::string* out, char32_t first, char32_t last) {
  *out += HexEscape(first);
  if (last != first) *out += "-" + HexEscape(last);
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

std::optional<CharUnion> PropertySet(std::string_view name, bool negated) {
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
    const std::string assigned = NewlyAssigned(category == "C");
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
  if (plain == "alpha") return PropertySet("Alphabetic", negated);
  if (plain == "upper") return PropertySet("Uppercase", negated);
  if (plain == "lower") return PropertySet("Lowercase", negated);
  if (plain == "xdigit") return MakeSet(std::string(kHexDigits), negated);
  if (plain == "blank") return MakeSet("\\t" + CategoryBracket("Zs"), negated);
  if (plain == "punct") return MakeSet(CategoryBracket("P"), negated);
  if (plain == "graph" || plain == "print") {
    CharUnion set = Graph();
    if (plain == "print") set.bracket += CategoryBracket("Zs");
    if (!negated) return set;
    CharUnion outside;
    outside.others.push_back(set.Negated());
    return outside;
  }
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
  if (!is_name) return std::nullopt;
  // Scripts: the Script property, not PCRE2's default Script_Extensions.
  std::string bracket = "\\p{sc:" + plain + "}";
  for (const NamePair& pair : kNewerScriptMembers) {
    if (pair.name == plain) bracket += pair.value;
  }
  return MakeSet(bracket, negated);
}

std::optional<CharUnion> PosixSet(std::string_view name, bool negated) {
  if (name == "punct") return MakeSet(CategoryBracket("P") + CategoryBracket("S"), negated);
  return PropertySet(name, negated);
}

std::optional<CharUnion> ShorthandSet(char letter, bool negated) {
  switch (letter) {
    case 's':
      return MakeSet(std::string(kWhitespace), negated);
    case 'd':
      return MakeSet(CategoryBracket("Nd"), negated);
    case 'w':
      return MakeSet(WordBracket(), negated);
    case 'h':  // hexadecimal digits in Oniguruma, horizontal space in PCRE2
      return MakeSet(std::string(kHexDigits), negated);
    default:
      return std::nullopt;
  }
}

}  // namespace mla
