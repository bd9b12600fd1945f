// The JSON that commands print and read: keys keep their order, text is always valid UTF-8.
// Called by: the commands. Thread-safety: stateless.
#ifndef MLA_CLI_JSON_H_
#define MLA_CLI_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "mla/engine.h"

namespace mla {

using Json = nlohmann::ordered_json;

/// One line without a line break; invalid UTF-8 becomes U+FFFD, NaN and infinities null.
std::string Dump(const Json& value);

/// Parses outside input; throws kBadInput naming `what`, also for nesting beyond the limit.
Json ParseJson(std::string_view text, std::string_view what);

/// The list of token ids in `value`; throws kBadInput naming `what` and the item.
std::vector<int32_t> TokenList(const Json& value, std::string_view what);

/// {"decompressed":N,"absorbed_prefill":N,"absorbed_composed":N,"absorbed_split_kv":N}
Json PathsJson(const PathCounts& paths);

}  // namespace mla

#endif  // MLA_CLI_JSON_H_
