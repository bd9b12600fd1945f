// Where a prompt comes from: -p TEXT, -f FILE (or standard input), --tokens 1,2,3.
// Called by: generate, logits, perplexity, tokenize, detokenize. Thread-safety: stateless.
#ifndef MLA_CLI_PROMPT_H_
#define MLA_CLI_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace mla {

struct PromptArgs {
  std::optional<std::string> text;
  std::optional<std::string> file;  ///< "-": standard input
  std::optional<std::string> tokens;
};

/// Adds -p,--prompt and -f,--file.
void AddTextOptions(Command command, PromptArgs& args);
/// Adds -f,--file alone.
void AddFileOption(Command command, PromptArgs& args, const std::string& description);
/// Adds --tokens.
void AddTokensOption(Command command, PromptArgs& args);

/// The text of -p or -f, checked to be UTF-8. Throws kUsage unless exactly one of them was given.
std::string PromptText(const PromptArgs& args);

/// Most bytes that a command reads as its input: a device never ends.
inline constexpr size_t kMaxInputBytes = size_t{64} << 20;
/// Throws kBadInput naming `what` if `size` is more.
void CheckInputSize(size_t size, const std::string& what);

/// The whole file, or standard input for "-". Throws kNotFound; kBadInput above kMaxInputBytes.
std::string ReadInput(const std::string& path);

/// "1,2,3" (blanks allowed) -> ids. Throws kUsage naming `name` and the item; kUsage for no ids.
std::vector<int32_t> ParseTokens(const std::string& text, const std::string& name);
/// 1,2,3
std::string JoinTokens(const std::vector<int32_t>& tokens);

}  // namespace mla

#endif  // MLA_CLI_PROMPT_H_
