#include "tokenizer/unicode.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>

#include <utf8proc.h>

#include "base/check.h"
#include "tokenizer/unicode_reference.h"

namespace mla {
namespace {

constexpr const char* kCategoryNames[] = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

uint8_t ByteAt(std::string_view text, size_t position) {
  return static_cast<uint8_t>(text[position]);
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

/// Range of valid second bytes after a lead byte (Unicode 16, table 3-7).
void SecondByteRange(uint8_t lead, uint8_t* low, uint8_t* high) {
  *low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  *high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
}

struct LowerRange {
  char32_t first;
  char32_t last;
  int32_t offset;
};

// Upper case letters of Unicode 15 to 17 (UnicodeData.txt).
constexpr LowerRange kLowerSinceUnicode14[] = {
    {0x1c89, 0x1c89, 1},      {0xa7cb, 0xa7cb, 0x264 - 0xa7cb},
    {0xa7cc, 0xa7cc, 1},      {0xa7ce, 0xa7ce, 1},
    {0xa7d2, 0xa7d2, 1},      {0xa7d4, 0xa7d4, 1},
    {0xa7da, 0xa7da, 1},      {0xa7dc, 0xa7dc, 0x19b - 0xa7dc},
    {0x10d50, 0x10d65, 0x20}, {0x16ea0, 0x16eb8, 0x1b},
};

char32_t LowerOf(char32_t code) {
  for (const LowerRange& range : kLowerSinceUnicode14) {
    if (code >= range.first && code <= range.last) {
      return static_cast<char32_t>(static_cast<int32_t>(code) + range.offset);
    }
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

std::string NormalizeKnown(std::string_view text, NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                             static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (size == UTF8PROC_ERROR_NOMEM) Fail(ErrorCode::kResource, "no memory to normalise the text");
  if (size < 0) Fail(ErrorCode::kBadInput, "cannot normalise: {}", utf8proc_errmsg(size));
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
}

}  // namespace

Utf8Char CharAt(std::string_view text, size_t position) {
  const auto tail = [&](size_t i) { return static_cast<char32_t>(text[position + i] & 0x3f); };
  const uint8_t lead = ByteAt(text, position);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {static_cast<char32_t>(lead & 0x1f) << 6 | tail(1), 2};
  if (lead < 0xf0) {
    return {static_cast<char32_t>(lead & 0x0f) << 12 | tail(1) << 6 | tail(2), 3};
  }
  return {static_cast<char32_t>(lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

char32_t LastChar(std::string_view text) {
  size_t position = text.size() - 1;
  while (position > 0 && (ByteAt(text, position) & 0xc0) == 0x80) --position;
  return CharAt(text, position).code;
}

void AppendUtf8(std::string* out, char32_t code) {
  const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

size_t ValidUtf8Length(std::string_view text, size_t position, size_t* bad) {
  const uint8_t lead = ByteAt(text, position);
  *bad = 1;
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  uint8_t low = 0;
  uint8_t high = 0;
  SecondByteRange(lead, &low, &high);
  for (size_t i = 1; i < length; ++i) {
    if (position + i >= text.size()) return 0;
    const uint8_t byte = ByteAt(text, position + i);
    if (byte < low || byte > high) return 0;
    low = 0x80;
    high = 0xbf;
    *bad = i + 1;
  }
  return length;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    size_t bad = 0;
    const size_t length = ValidUtf8Length(text, position, &bad);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      position += bad;
    } else {
      out.append(text, position, length);
      position += length;
    }
  }
  return out;
}

const char* CategoryName(Category category) {
  return kCategoryNames[static_cast<size_t>(category)];
}

Category CategoryOf(char32_t code) {
  if (code >= 0x80) {
    const auto newer = CategoriesSinceUnicode14();
    const auto it = std::lower_bound(
        newer.begin(), newer.end(), code,
        [](const CategoryRange& range, char32_t value) { return range.last < value; });
    if (it != newer.end() && code >= it->first) return it->category;
  }
  return static_cast<Category>(utf8proc_category(static_cast<utf8proc_int32_t>(code)));
}

bool IsWhitespace(char32_t code) {
  return (code >= 0x9 && code <= 0xd) || code == 0x20 || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

bool IsNumeric(char32_t code) {
  // The reference's own tables are of Unicode 17 here.
  if ((code >= 0x11de0 && code <= 0x11de9) || (code >= 0x16ff4 && code <= 0x16ff6)) return true;
  const Category category = CategoryOf(code);
  return category >= Category::kNd && category <= Category::kNo;
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= 0x21 && code <= 0x2f) || (code >= 0x3a && code <= 0x40) ||
           (code >= 0x5b && code <= 0x60) || (code >= 0x7b && code <= 0x7e);
  }
  if (code == 0x166d || code == 0x111c9) return true;  // P in Unicode 8, no longer in 16
  const Category category = CategoryOf(code);
  return category >= Category::kPc && category <= Category::kPo && ReferenceKnowsPunctuation(code);
}

bool IsMark(char32_t code) {
  if (code == 0x1cf2 || code == 0x1cf3) return true;  // Mc in Unicode 9, no longer in 16
  const Category category = CategoryOf(code);
  return category >= Category::kMn && category <= Category::kMe && ReferenceKnowsMark(code);
}

bool IsWordChar(char32_t code) {
  if (code == 0x200c || code == 0x200d) return true;
  // Other_Alphabetic outside of L, Nl and M: the circled and squared letters.
  if ((code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
      (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189)) {
    return true;
  }
  const Category category = CategoryOf(code);
  return (category >= Category::kLu && category <= Category::kNl) || category == Category::kPc;
}

std::string Normalize(std::string_view text, NormalForm form) {
  if (IsAscii(text)) return std::string(text);
  std::string out;
  size_t from = 0;
  for (size_t position = 0; position < text.size();) {
    const Utf8Char c = CharAt(text, position);
    if (!ReferenceNormalizes(c.code)) {
      out += NormalizeKnown(text.substr(from, position - from), form);
      out.append(text, position, c.size);
      from = position + c.size;
    }
    position += c.size;
  }
  return out + NormalizeKnown(text.substr(from), form);
}

std::string Lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Char c = CharAt(text, position);
    position += c.size;
    if (c.code == 0x130) {
      out += "i\xcc\x87";  // the only lower case of two characters (SpecialCasing.txt)
    } else {
      AppendUtf8(&out, LowerOf(c.code));
    }
  }
  return out;
}

}  // namespace mla
