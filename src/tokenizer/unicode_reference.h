// Which newer characters the reference's normalisers and Punctuation do not know yet.
// Called by: unicode. Thread-safety: stateless.
#ifndef MLA_TOKENIZER_UNICODE_REFERENCE_H_
#define MLA_TOKENIZER_UNICODE_REFERENCE_H_

namespace mla {

/// False for marks (M) that its StripAccents keeps.
bool ReferenceKnowsMark(char32_t code);
/// False for punctuation (P) that its Punctuation does not split at.
bool ReferenceKnowsPunctuation(char32_t code);
/// False for characters that NFC, NFD, NFKC and NFKD leave alone and do not reorder or compose.
bool ReferenceNormalizes(char32_t code);

}  // namespace mla

#endif  // MLA_TOKENIZER_UNICODE_REFERENCE_H_
