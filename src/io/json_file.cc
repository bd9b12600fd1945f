#include "io/json_file.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/json_depth.h"

namespace mla {
namespace {

using Json = nlohmann::json;

const Json& Tree(const std::shared_ptr<const void>& node) {
  return *static_cast<const Json*>(node.get());
}

const Json* Member(const std::shared_ptr<const void>& node, std::string_view key) {
  const Json& object = Tree(node);
  const auto it = object.find(std::string(key));
  return it == object.end() ? nullptr : &*it;
}

// A value as messages show it; long ones are cut.
std::string Shown(const Json& value) {
  constexpr size_t kMost = 60;
  if (value.is_object() && !value.empty()) return "an object";
  if (value.is_array() && value.size() > 8) return fmt::format("a list of {}", value.size());
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

// The parser takes a NUL for the end of the text, and so would pass over what follows.
void RejectNul(std::string_view text, const std::string& label) {
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    Fail(ErrorCode::kBadInput, "{}: not valid JSON: a NUL at byte {} of {}", label, nul,
         text.size());
  }
}

std::optional<int64_t> AsInt(const Json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  }
  const int64_t number = value.get<int64_t>();
  if (number < least || number > most) return std::nullopt;
  return number;
}

// Throws on the second key of the same name in one object.
class DuplicateKeys {
 public:
  explicit DuplicateKeys(const std::string& label) : label_(label) {}

  bool operator()(int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      if (!open_.back().insert(parsed.get<std::string>()).second) {
        Fail(ErrorCode::kBadInput, "{}: {} appears twice in one object; remove one of them", label_,
             Shown(parsed));
      }
    }
    return true;
  }

 private:
  const std::string& label_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

std::string Printable(std::string_view name) {
  constexpr size_t kMost = 120;
  const bool cut = name.size() > kMost;
  const Json text = std::string(name.substr(0, kMost)) + (cut ? "..." : "");
  const std::string quoted = text.dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

JsonObject JsonObject::Parse(std::string_view text, const std::string& label) {
  RejectNul(text, label);
  const int depth = MaxJsonDepth(text);
  if (depth > kMaxJsonDepth) {
    Fail(ErrorCode::kBadInput, "{}: JSON nested {} deep; expected at most {}", label, depth,
         kMaxJsonDepth);
  }
  auto tree = std::make_shared<Json>();
  // The callback is copied by the parser, hence the reference.
  DuplicateKeys duplicates(label);
  try {
    *tree = Json::parse(text.begin(), text.end(),
                        [&](int level, Json::parse_event_t event, Json& parsed) {
                          return duplicates(level, event, parsed);
                        });
  } catch (const Json::parse_error& error) {
    Fail(ErrorCode::kBadInput, "{}: not valid JSON: error at byte {} of {}", label, error.byte,
         text.size());
  } catch (const Json::out_of_range&) {
    Fail(ErrorCode::kBadInput, "{}: not valid JSON: a number is out of range", label);
  }
  if (!tree->is_object()) {
    Fail(ErrorCode::kBadInput, "{}: expected a JSON object, found {}", label, Shown(*tree));
  }
  JsonObject object;
  object.node_ = std::move(tree);
  object.label_ = label;
  return object;
}

JsonObject JsonObject::Read(const std::string& path, int64_t max_bytes) {
  // A directory opens as well, and then claims a size of its own.
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    Fail(ErrorCode::kNotFound, "{}: expected a regular file", path);
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    Fail(ErrorCode::kNotFound, "{}: cannot be opened for reading: {}", path, std::strerror(errno));
  }
  const int64_t size = file.tellg();
  if (size < 0) Fail(ErrorCode::kNotFound, "{}: cannot be read", path);
  if (size > max_bytes) {
    Fail(ErrorCode::kBadInput, "{}: {} bytes; expected at most {}", path, size, max_bytes);
  }
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) {
    Fail(ErrorCode::kNotFound, "{}: cannot be read", path);
  }
  return Parse(text, path);
}

bool JsonObject::Has(std::string_view key) const { return Member(node_, key) != nullptr; }

bool JsonObject::Empty() const { return Tree(node_).empty(); }

bool JsonObject::IsNull(std::string_view key) const {
  const Json* value = Member(node_, key);
  return value != nullptr && value->is_null();
}

std::string JsonObject::Describe(std::string_view key, std::string_view expected) const {
  const Json* value = Member(node_, key);
  if (value == nullptr) {
    return fmt::format("{}: {}{} is missing; expected {}", label_, prefix_, Printable(key),
                       expected);
  }
  return fmt::format("{}: {}{} is {}; expected {}", label_, prefix_, Printable(key), Shown(*value),
                     expected);
}

void JsonObject::Reject(std::string_view key, std::string_view expected) const {
  throw Error(ErrorCode::kBadInput, Describe(key, expected));
}

void JsonObject::Refuse(std::string_view key, std::string_view expected) const {
  throw Error(ErrorCode::kUnsupported, Describe(key, expected));
}

int64_t JsonObject::Int(std::string_view key, int64_t least, int64_t most,
                        std::optional<int64_t> fallback) const {
  const Json* value = Member(node_, key);
  if (value == nullptr && fallback) return *fallback;
  const auto number = value == nullptr ? std::nullopt : AsInt(*value, least, most);
  if (!number) Reject(key, fmt::format("an integer from {} to {}", least, most));
  return *number;
}

double JsonObject::Number(std::string_view key, double least, double most,
                          std::optional<double> fallback) const {
  const Json* value = Member(node_, key);
  if (value == nullptr && fallback) return *fallback;
  const double number = value != nullptr && value->is_number() ? value->get<double>() : NAN;
  if (!(number >= least && number <= most)) {
    Reject(key, fmt::format("a number from {} to {}", least, most));
  }
  return number;
}

bool JsonObject::Bool(std::string_view key, std::optional<bool> fallback) const {
  const Json* value = Member(node_, key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_boolean()) Reject(key, "true or false");
  return value->get<bool>();
}

std::string JsonObject::String(std::string_view key, std::optional<std::string> fallback) const {
  const Json* value = Member(node_, key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_string()) Reject(key, "a string");
  return value->get<std::string>();
}

JsonObject JsonObject::Object(std::string_view key) const {
  const Json* value = Member(node_, key);
  if (value == nullptr || !value->is_object()) Reject(key, "an object");
  JsonObject object;
  object.node_ = std::shared_ptr<const void>(node_, value);
  object.label_ = label_;
  object.prefix_ = fmt::format("{}{}.", prefix_, key);
  return object;
}

std::vector<int64_t> JsonObject::IntOrList(std::string_view key, int64_t least,
                                           int64_t most) const {
  std::vector<int64_t> numbers;
  const Json* value = Member(node_, key);
  if (value == nullptr || value->is_null()) return numbers;
  const auto add = [&](const Json& item) {
    const auto number = AsInt(item, least, most);
    if (!number) {
      Reject(key, fmt::format("an integer from {} to {}, or a list of such", least, most));
    }
    numbers.push_back(*number);
  };
  if (value->is_array()) {
    for (const Json& item : *value) add(item);
  } else {
    add(*value);
  }
  return numbers;
}

std::vector<std::string> JsonObject::Strings(std::string_view key) const {
  std::vector<std::string> strings;
  const Json* value = Member(node_, key);
  if (value == nullptr || value->is_null()) return strings;
  if (!value->is_array()) Reject(key, "a list of strings");
  for (const Json& item : *value) {
    if (!item.is_string()) Reject(key, "a list of strings");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

std::vector<std::pair<std::string, std::string>> JsonObject::StringEntries() const {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [key, value] : Tree(node_).items()) {
    if (!value.is_string()) Reject(key, "a string");
    entries.emplace_back(key, value.get<std::string>());
  }
  return entries;
}

}  // namespace mla
