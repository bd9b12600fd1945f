// The JSON that commands read: token lists, and the lines of --jsonl.
// Called by: logits, tokenize, detokenize. Thread-safety: stateless.
// All functions throw kBadInput with `what` (a file, a line) in front, also for JSON nested too
// deep.
#ifndef MLA_CLI_JSON_INPUT_H_
#define MLA_CLI_JSON_INPUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mla {

/// [1,2,3] or {"tokens":[1,2,3]}
std::vector<int32_t> TokensFromJson(std::string_view json, const std::string& what);

/// {"tokens":[1,2,3]} alone.
std::vector<int32_t> TokensFromJsonObject(std::string_view json, const std::string& what);

/// The text of {"text":"..."}, or the bytes of {"bytes_hex":"68c3"}.
std::string TextFromJsonObject(std::string_view json, const std::string& what);

/// "68c3" -> two bytes, either case; anything but pairs of hexadecimal digits is an error.
std::string ParseHex(std::string_view text, const std::string& what);

}  // namespace mla

#endif  // MLA_CLI_JSON_INPUT_H_
