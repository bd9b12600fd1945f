// A "pattern" member of tokenizer.json ({"String": ...} or {"Regex": ...}) and replacing by it.
// Called by: normalizer, pretokenizer, decoder. Thread-safety: stateless.
#ifndef MLA_TOKENIZER_PATTERN_H_
#define MLA_TOKENIZER_PATTERN_H_

#include <string>
#include <string_view>

#include "tokenizer/regex.h"
#include "tokenizer/tokenizer_json.h"

namespace mla {

/// The member "pattern" of `component`. Throws kBadInput or kUnsupported.
Regex ParsePattern(const JsonValue& component, std::string_view where);

/// `text` with every match replaced by `content`.
std::string ReplaceAll(const Regex& regex, std::string_view text, std::string_view content);

/// The byte-level alphabet's character for a byte, as UTF-8 of one or two bytes: printable Latin-1
/// characters stand for themselves, the others for U+0100 onwards (GPT-2's bytes_to_unicode).
std::string_view ByteLevelChar(unsigned char byte);

/// Byte that a character of the alphabet stands for, or -1.
int ByteLevelByte(char32_t code);

}  // namespace mla

#endif  // MLA_TOKENIZER_PATTERN_H_
