#include "tokenizer/tokenizer_json.h"

#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/json_depth.h"

namespace mla {
namespace {

/// Builds the tree from the parser's events. A tree of our own, because the parser's default one
/// drops duplicate keys silently and sorts members.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Place(JsonValue{}); }
  bool boolean(bool value) override {
    JsonValue node;
    node.kind = JsonValue::Kind::kBool;
    node.boolean = value;
    return Place(std::move(node));
  }
  bool number_integer(number_integer_t value) override { return PlaceInteger(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max())) {
      return PlaceNumber(static_cast<double>(value));
    }
    return PlaceInteger(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return PlaceNumber(value); }
  bool string(string_t& value) override {
    JsonValue node;
    node.kind = JsonValue::Kind::kString;
    node.string = std::move(value);
    return Place(std::move(node));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(JsonValue::Kind::kObject); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(JsonValue::Kind::kArray); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    open_.back().keys.push_back(std::move(value));
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    error_ = e.what();
    return false;
  }

  const std::string& error() const { return error_; }
  JsonValue&& TakeRoot() { return std::move(root_); }

 private:
  bool Place(JsonValue&& node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else {
      open_.back().items.push_back(std::move(node));
    }
    return true;
  }
  bool PlaceInteger(int64_t value) {
    JsonValue node;
    node.kind = JsonValue::Kind::kInteger;
    node.integer = value;
    return Place(std::move(node));
  }
  bool PlaceNumber(double value) {
    JsonValue node;
    node.kind = JsonValue::Kind::kNumber;
    node.number = value;
    return Place(std::move(node));
  }
  bool Open(JsonValue::Kind kind) {
    open_.emplace_back().kind = kind;
    return true;
  }
  bool Close() {
    JsonValue node = std::move(open_.back());
    open_.pop_back();
    return Place(std::move(node));
  }

  std::vector<JsonValue> open_;
  JsonValue root_;
  std::string error_;
};

[[noreturn]] void FailType(std::string_view where, std::string_view key, const char* expected,
                           const JsonValue* found) {
  Fail(ErrorCode::kBadInput, "{}: \"{}\" must be {}, found {}", where, key, expected,
       found == nullptr ? "nothing" : KindName(found->kind));
}

}  // namespace

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (size_t i = keys.size(); i-- > 0;) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

JsonValue ParseJson(std::string_view text, std::string_view what) {
  const int depth = MaxJsonDepth(text);
  if (depth > kMaxJsonDepth) {
    Fail(ErrorCode::kBadInput, "{}: nested {} levels deep, at most {} are allowed", what, depth,
         kMaxJsonDepth);
  }
  TreeBuilder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    Fail(ErrorCode::kBadInput, "{}: not valid JSON ({}); is the file complete?", what,
         builder.error());
  }
  return builder.TakeRoot();
}

const char* KindName(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return "true or false";
    case JsonValue::Kind::kInteger:
      return "an integer";
    case JsonValue::Kind::kNumber:
      return "a number";
    case JsonValue::Kind::kString:
      return "a string";
    case JsonValue::Kind::kArray:
      return "an array";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "?";
}

const JsonValue& Need(const JsonValue& object, std::string_view key, std::string_view where) {
  if (!object.IsObject()) {
    Fail(ErrorCode::kBadInput, "{}: must be an object, found {}", where, KindName(object.kind));
  }
  const JsonValue* value = object.Find(key);
  if (value == nullptr || value->IsNull()) {
    Fail(ErrorCode::kBadInput, "{}: \"{}\" is missing", where, key);
  }
  return *value;
}

const std::string& NeedString(const JsonValue& object, std::string_view key,
                              std::string_view where) {
  const JsonValue& value = Need(object, key, where);
  if (!value.IsString()) FailType(where, key, "a string", &value);
  return value.string;
}

const JsonValue& NeedArray(const JsonValue& object, std::string_view key, std::string_view where) {
  const JsonValue& value = Need(object, key, where);
  if (!value.IsArray()) FailType(where, key, "an array", &value);
  return value;
}

bool BoolOr(const JsonValue& object, std::string_view key, bool fallback, std::string_view where) {
  const JsonValue* value = object.Find(key);
  if (value == nullptr || value->IsNull()) return fallback;
  if (value->kind != JsonValue::Kind::kBool) FailType(where, key, "true or false", value);
  return value->boolean;
}

std::string StringOr(const JsonValue& object, std::string_view key, std::string_view fallback,
                     std::string_view where) {
  const JsonValue* value = object.Find(key);
  if (value == nullptr || value->IsNull()) return std::string(fallback);
  if (!value->IsString()) FailType(where, key, "a string", value);
  return value->string;
}

int64_t IntegerOr(const JsonValue& object, std::string_view key, int64_t fallback,
                  std::string_view where) {
  const JsonValue* value = object.Find(key);
  if (value == nullptr || value->IsNull()) return fallback;
  if (value->kind != JsonValue::Kind::kInteger) FailType(where, key, "an integer", value);
  return value->integer;
}

int32_t TokenIdOf(const JsonValue& value, std::string_view what) {
  if (value.kind != JsonValue::Kind::kInteger) {
    Fail(ErrorCode::kBadInput, "{}: the id must be an integer in 0..{}, found {}", what,
         kMaxTokenId, KindName(value.kind));
  }
  if (value.integer < 0 || value.integer > kMaxTokenId) {
    Fail(ErrorCode::kBadInput, "{}: the id must be in 0..{}, found {}", what, kMaxTokenId,
         value.integer);
  }
  return static_cast<int32_t>(value.integer);
}

const std::string& ComponentType(const JsonValue& component, std::string_view where) {
  return NeedString(component, "type", where);
}

}  // namespace mla
