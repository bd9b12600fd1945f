// UTF-8, character classes and normalisation forms, at Unicode 16.
// Called by: this room. Thread-safety: stateless.
#ifndef MLA_TOKENIZER_UNICODE_H_
#define MLA_TOKENIZER_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mla {

struct Utf8Char {
  char32_t code;
  uint32_t size;  // bytes
};

/// The character at `position` of `text`, which must be valid UTF-8 with position < size().
Utf8Char CharAt(std::string_view text, size_t position);

/// The last character of a valid, non-empty text.
char32_t LastChar(std::string_view text);

void AppendUtf8(std::string* out, char32_t code);

/// Number of bytes at `position` that form a valid character; 0 if none does. Then *bad is the
/// length of the maximal invalid part there (Unicode 16, section 3.9: the longest prefix of a
/// well-formed sequence, or one byte).
size_t ValidUtf8Length(std::string_view text, size_t position, size_t* bad);

/// `text` with each maximal invalid part replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

/// General categories, in the order that utf8proc numbers them.
enum class Category : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
};

/// Two letters, e.g. "Lu".
const char* CategoryName(Category category);

/// Category of a code point in Unicode 16, whatever the installed libraries know.
Category CategoryOf(char32_t code);

/// A run of code points whose category in Unicode 16 is not the one of Unicode 14.
struct CategoryRange {
  char32_t first;
  char32_t last;
  Category category;
};

/// All such runs, ascending.
std::span<const CategoryRange> CategoriesSinceUnicode14();

bool IsWhitespace(char32_t code);  // White_Space
bool IsNumeric(char32_t code);     // N
/// P and ASCII symbols, as far as the reference's Punctuation knows them.
bool IsPunctuation(char32_t code);
/// M, as far as the reference's StripAccents knows them.
bool IsMark(char32_t code);
/// Alphabetic, M, Nd, Pc or Join_Control: what counts as a word character beside added tokens.
bool IsWordChar(char32_t code);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// Normalisation of valid UTF-8, with the reference's character data (unicode_reference.h).
std::string Normalize(std::string_view text, NormalForm form);

/// Lower case, character by character and without context.
std::string Lowercase(std::string_view text);

}  // namespace mla

#endif  // MLA_TOKENIZER_UNICODE_H_
