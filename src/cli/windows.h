// Cuts a text's tokens into the windows that perplexity is measured on.
// Called by: perplexity. Thread-safety: stateless.
#ifndef MLA_CLI_WINDOWS_H_
#define MLA_CLI_WINDOWS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mla {

/// Windows of at most `context` tokens each, in order; the first token of a window is given, the
/// others are predicted. If `tokens` begins with `bos`, every window does; otherwise each later
/// window begins with the last token of the one before. Every token but the first is predicted
/// exactly once. Throws kBadInput if there is nothing to predict, kUsage for a context below 2.
std::vector<std::vector<int32_t>> PerplexityWindows(std::span<const int32_t> tokens,
                                                    std::optional<int32_t> bos, int64_t context);

}  // namespace mla

#endif  // MLA_CLI_WINDOWS_H_
