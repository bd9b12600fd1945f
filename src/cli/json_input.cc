#include "cli/json_input.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/json_depth.h"

namespace mla {
namespace {

using Json = nlohmann::json;

Json Parse(std::string_view text, const std::string& what) {
  if (MaxJsonDepth(text) > kMaxJsonDepth) {
    Fail(ErrorCode::kBadInput, "{}: JSON nested deeper than {} levels", what, kMaxJsonDepth);
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    Fail(ErrorCode::kBadInput, "{}: not valid JSON: {}", what, error.what());
  }
}

std::string Show(const Json& value) {
  constexpr size_t kMost = 40;
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kMost);
}

std::vector<int32_t> TokenList(const Json& value, const std::string& what) {
  if (!value.is_array()) {
    Fail(ErrorCode::kBadInput, "{}: expected a list of token ids such as [1,2,3], found {}", what,
         Show(value));
  }
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> tokens;
  tokens.reserve(value.size());
  for (const Json& item : value) {
    if (!item.is_number_integer() || item < 0 || item > kMax) {
      Fail(ErrorCode::kBadInput, "{}: item {}: expected a token id from 0 to {}, found {}", what,
           tokens.size() + 1, kMax, Show(item));
    }
    tokens.push_back(item.get<int32_t>());
  }
  return tokens;
}

std::vector<int32_t> TokensMember(const Json& value, const std::string& what) {
  if (!value.is_object() || !value.contains("tokens")) {
    Fail(ErrorCode::kBadInput, "{}: expected {{\"tokens\":[1,2,3]}}, found {}", what, Show(value));
  }
  return TokenList(value["tokens"], what + ": tokens");
}

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::vector<int32_t> TokensFromJson(std::string_view json, const std::string& what) {
  const Json value = Parse(json, what);
  return value.is_object() ? TokensMember(value, what) : TokenList(value, what);
}

std::vector<int32_t> TokensFromJsonObject(std::string_view json, const std::string& what) {
  return TokensMember(Parse(json, what), what);
}

std::string TextFromJsonObject(std::string_view json, const std::string& what) {
  const Json value = Parse(json, what);
  const bool text = value.is_object() && value.contains("text");
  const bool hex = value.is_object() && value.contains("bytes_hex");
  if (text == hex || !value[text ? "text" : "bytes_hex"].is_string()) {
    Fail(ErrorCode::kBadInput,
         "{}: expected {{\"text\":\"...\"}} or {{\"bytes_hex\":\"...\"}}, found {}", what,
         Show(value));
  }
  return text ? value["text"].get<std::string>()
              : ParseHex(value["bytes_hex"].get<std::string>(), what + ": bytes_hex");
}

std::string ParseHex(std::string_view text, const std::string& what) {
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = Digit(text[i]);
    const int low = i + 1 < text.size() ? Digit(text[i + 1]) : -1;
    if (high < 0 || low < 0) {
      Fail(ErrorCode::kBadInput,
           "{}: expected pairs of hexadecimal digits, found '{}' at offset {}", what,
           text.substr(i, 2), i);
    }
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

}  // namespace mla
