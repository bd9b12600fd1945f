// The "post_processor" component of tokenizer.json: special tokens around the encoded text.
// Called by: tokenizer. Thread-safety: immutable after parsing.
#ifndef MLA_TOKENIZER_POST_PROCESSOR_H_
#define MLA_TOKENIZER_POST_PROCESSOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tokenizer/tokenizer_json.h"

namespace mla {

/// What a single text gets in front and behind. Sequences concatenate outwards; components that
/// only concern offsets (ByteLevel) add nothing.
struct PostProcessor {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

/// Nothing in front and behind for a null component. Throws kBadInput or kUnsupported.
PostProcessor ParsePostProcessor(const JsonValue* component);

}  // namespace mla

#endif  // MLA_TOKENIZER_POST_PROCESSOR_H_
