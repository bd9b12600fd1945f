#include "cli/json.h"

#include <limits>

#include "base/check.h"
#include "base/json_depth.h"

namespace mla {

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json ParseJson(std::string_view text, std::string_view what) {
  if (MaxJsonDepth(text) > kMaxJsonDepth) {
    Fail(ErrorCode::kBadInput, "{}: JSON nested deeper than {} levels", what, kMaxJsonDepth);
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    Fail(ErrorCode::kBadInput, "{}: not valid JSON: {}", what, error.what());
  }
}

std::vector<int32_t> TokenList(const Json& value, std::string_view what) {
  if (!value.is_array()) {
    Fail(ErrorCode::kBadInput, "{}: expected a list of token ids such as [1,2,3], found {}", what,
         value.type_name());
  }
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> tokens;
  tokens.reserve(value.size());
  for (const Json& item : value) {
    if (!item.is_number_integer() || item < 0 || item > kMax) {
      Fail(ErrorCode::kBadInput, "{}: item {}: expected a token id from 0 to {}, found {}", what,
           tokens.size() + 1, kMax, Dump(item).substr(0, 40));
    }
    tokens.push_back(item.get<int32_t>());
  }
  return tokens;
}

Json PathsJson(const PathCounts& paths) {
  return Json{{"decompressed", paths.decompressed},
              {"absorbed_prefill", paths.absorbed_prefill},
              {"absorbed_composed", paths.absorbed_composed},
              {"absorbed_split_kv", paths.absorbed_split_kv}};
}

}  // namespace mla
