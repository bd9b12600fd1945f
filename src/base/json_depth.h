// Nesting depth of a JSON text, measured before it is handed to a recursive parser.
// Called by: io, tokenizer. Thread-safety: stateless.
#ifndef MLA_BASE_JSON_DEPTH_H_
#define MLA_BASE_JSON_DEPTH_H_

#include <string_view>

namespace mla {

/// Deepest nesting that readers of JSON files accept.
inline constexpr int kMaxJsonDepth = 64;

/// Deepest nesting of [ ] and { } in `text`, brackets inside strings not counted. Runs in constant
/// stack and linear time; the text need not be valid JSON. Stops counting at INT_MAX.
int MaxJsonDepth(std::string_view text);

}  // namespace mla

#endif  // MLA_BASE_JSON_DEPTH_H_
