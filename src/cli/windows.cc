#include "cli/windows.h"

#include <algorithm>

#include "base/check.h"

namespace mla {

std::vector<std::vector<int32_t>> PerplexityWindows(std::span<const int32_t> tokens,
                                                    std::optional<int32_t> bos, int64_t context) {
  if (context < 2) {
    Fail(ErrorCode::kUsage,
         "--ctx: expected at least 2 tokens for a perplexity, found {}: one is given, the others "
         "are predicted",
         context);
  }
  if (tokens.size() < 2) {
    Fail(ErrorCode::kBadInput, "the text has {} tokens: nothing to predict; give a longer text",
         tokens.size());
  }
  const bool with_bos = bos && tokens.front() == *bos;
  const size_t predicted_per_window = static_cast<size_t>(context) - 1;
  std::vector<std::vector<int32_t>> windows;
  for (size_t next = 1; next < tokens.size(); next += predicted_per_window) {
    const size_t count = std::min(predicted_per_window, tokens.size() - next);
    std::vector<int32_t> window{with_bos ? tokens.front() : tokens[next - 1]};
    window.insert(window.end(), tokens.begin() + static_cast<ptrdiff_t>(next),
                  tokens.begin() + static_cast<ptrdiff_t>(next + count));
    windows.push_back(std::move(window));
  }
  return windows;
}

}  // namespace mla
