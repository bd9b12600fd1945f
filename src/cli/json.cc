#include "cli/json.h"

#include <cmath>

#include <fmt/format.h>

#include "cli/utf8.h"

namespace mla {

JsonText& JsonText::AddRaw(std::string_view key, std::string_view json) {
  if (!members_.empty()) members_ += ',';
  members_ += JsonString(key);
  members_ += ':';
  members_ += json;
  return *this;
}

JsonText& JsonText::AddInteger(std::string_view key, int64_t value) {
  return AddRaw(key, std::to_string(value));
}

JsonText& JsonText::Add(std::string_view key, double value) {
  return AddRaw(key, std::isfinite(value) ? fmt::format("{}", value) : "null");
}

JsonText& JsonText::Add(std::string_view key, std::string_view text) {
  return AddRaw(key, JsonString(text));
}

JsonText& JsonText::Add(std::string_view key, const std::vector<int32_t>& tokens) {
  return AddRaw(key, fmt::format("[{}]", fmt::join(tokens, ",")));
}

JsonText& JsonText::Add(std::string_view key, const JsonText& object) {
  return AddRaw(key, object.Text());
}

JsonText& JsonText::Add(std::string_view key, const std::vector<JsonText>& list) {
  std::string json;
  for (const JsonText& object : list) json += (json.empty() ? "" : ",") + object.Text();
  return AddRaw(key, "[" + json + "]");
}

std::string JsonString(std::string_view text) {
  std::string json = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    const std::string_view character = text.substr(i, length);
    const unsigned char first = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      json += "\xEF\xBF\xBD";
    } else if (first == '"' || first == '\\') {
      json += '\\';
      json += character;
    } else if (first == '\n') {
      json += "\\n";
    } else if (first < 0x20) {
      json += fmt::format("\\u{:04x}", first);
    } else if (character == "\xC2\x85") {
      json += "\\u0085";
    } else if (character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9") {
      json += character == "\xE2\x80\xA8" ? "\\u2028" : "\\u2029";
    } else {
      json += character;
    }
    i += length == 0 ? 1 : length;
  }
  return json + '"';
}

JsonText PathsJson(const PathCounts& paths) {
  return JsonText()
      .Add("decompressed", paths.decompressed)
      .Add("absorbed_prefill", paths.absorbed_prefill)
      .Add("absorbed_composed", paths.absorbed_composed)
      .Add("absorbed_split_kv", paths.absorbed_split_kv);
}

JsonText GeometryJson(const Geometry& g) {
  return JsonText()
      .Add("name", g.name)
      .Add("layers", g.layers)
      .Add("heads", g.heads)
      .Add("rank", g.kv_rank)
      .Add("nope", g.nope)
      .Add("rope", g.rope)
      .Add("v_dim", g.v_dim);
}

}  // namespace mla
