// What happens to the matches of a splitting pattern.
// Called by: pretokenizer. Thread-safety: stateless.
#ifndef MLA_TOKENIZER_SPLIT_BEHAVIOR_H_
#define MLA_TOKENIZER_SPLIT_BEHAVIOR_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace mla {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Throws kBadInput for an unknown name. `where` names the component.
SplitBehavior ParseSplitBehavior(std::string_view name, std::string_view where);

/// Parts of a text of `size` bytes after splitting at `matches` (ascending, disjoint). With
/// `invert`, what lies between the matches counts as the matches. Empty parts are left out.
void SplitAt(size_t size, const std::vector<Span>& matches, SplitBehavior behavior, bool invert,
             std::vector<Span>* parts);

}  // namespace mla

#endif  // MLA_TOKENIZER_SPLIT_BEHAVIOR_H_
