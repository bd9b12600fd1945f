// A JSON document as a small tree that keeps member order and duplicate keys, with typed access.
// Called by: the parsers of this room. Thread-safety: plain values.
#ifndef MLA_TOKENIZER_TOKENIZER_JSON_H_
#define MLA_TOKENIZER_TOKENIZER_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mla {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  int64_t integer = 0;  // kInteger
  double number = 0.0;  // kNumber
  std::string string;
  std::vector<JsonValue> items;   // kArray: the elements; kObject: the values
  std::vector<std::string> keys;  // kObject: keys[i] belongs to items[i]

  bool IsNull() const { return kind == Kind::kNull; }
  bool IsString() const { return kind == Kind::kString; }
  bool IsObject() const { return kind == Kind::kObject; }
  bool IsArray() const { return kind == Kind::kArray; }

  /// The last member with this key, or nullptr. Null unless this is an object.
  const JsonValue* Find(std::string_view key) const;
};

/// Parses a whole document. `what` names the file in messages. Throws kBadInput for malformed JSON
/// and for nesting deeper than kMaxJsonDepth.
JsonValue ParseJson(std::string_view text, std::string_view what);

/// Name of a kind for messages, e.g. "an array".
const char* KindName(JsonValue::Kind kind);

// Members of `object`; `where` names the object in messages ("normalizer Replace"). All throw
// kBadInput when the member has another type, the Need forms also when it is absent or null.
const JsonValue& Need(const JsonValue& object, std::string_view key, std::string_view where);
const std::string& NeedString(const JsonValue& object, std::string_view key,
                              std::string_view where);
const JsonValue& NeedArray(const JsonValue& object, std::string_view key, std::string_view where);
bool BoolOr(const JsonValue& object, std::string_view key, bool fallback, std::string_view where);
std::string StringOr(const JsonValue& object, std::string_view key, std::string_view fallback,
                     std::string_view where);
int64_t IntegerOr(const JsonValue& object, std::string_view key, int64_t fallback,
                  std::string_view where);

/// Highest token id that files may use.
inline constexpr int64_t kMaxTokenId = (int64_t{1} << 31) - 2;

/// A token id: an integer in [0, kMaxTokenId], else kBadInput naming `what`.
int32_t TokenIdOf(const JsonValue& value, std::string_view what);

/// The "type" of a component object, e.g. "Split".
const std::string& ComponentType(const JsonValue& component, std::string_view where);

}  // namespace mla

#endif  // MLA_TOKENIZER_TOKENIZER_JSON_H_
