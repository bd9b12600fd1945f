// JSON files under size and depth limits, with typed access whose messages name the file, the
// field, what was expected and what was found.
// Called by: io (index), model (config readers). Thread-safety: immutable after parsing.
#ifndef MLA_IO_JSON_FILE_H_
#define MLA_IO_JSON_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mla {

inline constexpr int64_t kMaxConfigBytes = 16 << 20;    ///< config.json and its kin
inline constexpr int64_t kMaxIndexBytes = 100'000'000;  ///< shard index; 24 MB for 10^12 parameters

/// A name from an untrusted file as messages show it: control characters and invalid UTF-8
/// replaced, cut after 120 bytes.
std::string Printable(std::string_view name);

/// A JSON object inside a parsed document; copies share the document. Every accessor throws
/// kBadInput with a message of the form "<label>: <key> is <found>; expected <what>". A key that
/// is absent gives `fallback` if there is one; null is never taken for absent.
class JsonObject {
 public:
  /// `label` is what messages call the document, normally its path. Throws kBadInput if the text
  /// is not one JSON object, is nested deeper than kMaxJsonDepth, or repeats a key.
  static JsonObject Parse(std::string_view text, const std::string& label);
  /// Throws kNotFound if the file cannot be read, kBadInput if it is larger than `max_bytes`.
  static JsonObject Read(const std::string& path, int64_t max_bytes);

  const std::string& label() const { return label_; }
  bool Has(std::string_view key) const;  ///< present, null included
  bool IsNull(std::string_view key) const;
  bool Empty() const;  ///< no keys at all
  bool HasValue(std::string_view key) const { return Has(key) && !IsNull(key); }

  /// An integer literal (not 1.0, not "1") from least to most.
  int64_t Int(std::string_view key, int64_t least, int64_t most,
              std::optional<int64_t> fallback = std::nullopt) const;
  /// A finite number from least to most; integer literals are numbers too.
  double Number(std::string_view key, double least, double most,
                std::optional<double> fallback = std::nullopt) const;
  bool Bool(std::string_view key, std::optional<bool> fallback = std::nullopt) const;
  std::string String(std::string_view key,
                     std::optional<std::string> fallback = std::nullopt) const;
  /// The nested object; its messages call the fields "<key>.<field>".
  JsonObject Object(std::string_view key) const;
  /// One integer or a list of integers from least to most; empty if absent or null.
  std::vector<int64_t> IntOrList(std::string_view key, int64_t least, int64_t most) const;
  /// A list of strings; empty if absent or null.
  std::vector<std::string> Strings(std::string_view key) const;
  /// This object as (key, string) pairs, in key order.
  std::vector<std::pair<std::string, std::string>> StringEntries() const;

  /// Throws kBadInput in the common form; for checks that span several fields.
  [[noreturn]] void Reject(std::string_view key, std::string_view expected) const;
  /// Throws kUnsupported in the same form: well-formed, but outside of what this build can do.
  [[noreturn]] void Refuse(std::string_view key, std::string_view expected) const;

 private:
  std::string Describe(std::string_view key, std::string_view expected) const;

  // A node of the JSON library's tree; the pointer owns the whole tree. Typed in the .cc alone, so
  // that the library's header stays there.
  std::shared_ptr<const void> node_;
  std::string label_;
  std::string prefix_;
};

}  // namespace mla

#endif  // MLA_IO_JSON_FILE_H_
