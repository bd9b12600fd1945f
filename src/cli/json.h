// The JSON that commands print: objects whose keys keep their order and whose text is always UTF-8.
// Called by: the commands. Thread-safety: values.
#ifndef MLA_CLI_JSON_H_
#define MLA_CLI_JSON_H_

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mla/engine.h"
#include "mla/tools.h"

namespace mla {

/// Builds one JSON object. Invalid UTF-8 in text becomes U+FFFD; numbers that are not finite, null.
class JsonText {
 public:
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonText& Add(std::string_view key, T value) {
    return AddInteger(key, static_cast<int64_t>(value));
  }
  JsonText& Add(std::string_view key, std::same_as<bool> auto value) {
    return AddRaw(key, value ? "true" : "false");
  }
  JsonText& Add(std::string_view key, double value);
  JsonText& Add(std::string_view key, std::string_view text);
  JsonText& Add(std::string_view key, const char* text) { return Add(key, std::string_view(text)); }
  JsonText& Add(std::string_view key, const std::string& text) {
    return Add(key, std::string_view(text));
  }
  JsonText& Add(std::string_view key, const std::vector<int32_t>& tokens);
  JsonText& Add(std::string_view key, const JsonText& object);
  JsonText& Add(std::string_view key, const std::vector<JsonText>& list);

  /// One line without a line break.
  std::string Text() const { return "{" + members_ + "}"; }

 private:
  JsonText& AddInteger(std::string_view key, int64_t value);
  JsonText& AddRaw(std::string_view key, std::string_view json);

  std::string members_;
};

/// A JSON string literal with its quotes. Besides what JSON demands, U+0085, U+2028 and U+2029 are
/// escaped: some line readers take them for the end of the line.
std::string JsonString(std::string_view text);

/// {"decompressed":N,"absorbed_prefill":N,"absorbed_composed":N,"absorbed_split_kv":N}
JsonText PathsJson(const PathCounts& paths);
/// {"name":...,"layers":N,"heads":N,"rank":N,"nope":N,"rope":N,"v_dim":N}
JsonText GeometryJson(const Geometry& geometry);

}  // namespace mla

#endif  // MLA_CLI_JSON_H_
