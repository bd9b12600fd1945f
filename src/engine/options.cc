#include "mla/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "base/check.h"

namespace mla {
namespace {

constexpr struct {
  Attention value;
  const char* name;
} kAttentions[] = {{Attention::kDecompressed, "decompressed"},
                   {Attention::kAbsorbed, "absorbed"},
                   {Attention::kSplitKv, "split-kv"},
                   {Attention::kAuto, "auto"}};

constexpr struct {
  CacheType value;
  const char* name;
} kCacheTypes[] = {{CacheType::kBf16, "bf16"},
                   {CacheType::kF16, "f16"},
                   {CacheType::kF32, "f32"},
                   {CacheType::kInt8, "int8"}};

template <typename Table, typename Value>
const char* NameOf(const Table& table, Value value) noexcept {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  return "unknown";
}

template <typename Table>
auto ParseName(const Table& table, const std::string& name, const char* what) {
  std::string choices;
  for (const auto& row : table) {
    if (name == row.name) return row.value;
    choices += std::string(choices.empty() ? "" : ", ") + row.name;
  }
  Fail(ErrorCode::kUsage, "unknown {} '{}'; expected one of: {}", what, name, choices);
}

enum class Switch { kUnset, kOn, kOff };

// On for 1, true, on, yes in any case, surrounding blanks trimmed; unset if nothing is left.
// Anything else is off: a typo must not enable a path nobody asked for.
Switch ReadSwitch(const char* variable) {
  const char* raw = std::getenv(variable);
  if (raw == nullptr) return Switch::kUnset;
  std::string_view text = raw;
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return Switch::kUnset;
  text = text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool on = lower == "1" || lower == "true" || lower == "on" || lower == "yes";
  return on ? Switch::kOn : Switch::kOff;
}

}  // namespace

const char* AttentionName(Attention attention) noexcept { return NameOf(kAttentions, attention); }

Attention ParseAttention(const std::string& name) {
  return ParseName(kAttentions, name, "attention setting");
}

const char* CacheTypeName(CacheType type) noexcept { return NameOf(kCacheTypes, type); }

CacheType ParseCacheType(const std::string& name) {
  return ParseName(kCacheTypes, name, "cache type");
}

Attention AttentionFromEnvironment(std::string* note) {
  const Switch absorbed = ReadSwitch("MLXCEL_MLA_ABSORBED");
  const bool split = ReadSwitch("MLXCEL_MLA_SPLIT_KV") == Switch::kOn;
  if (note != nullptr) {
    note->clear();
    if (split && absorbed != Switch::kOn) {
      *note = "MLXCEL_MLA_SPLIT_KV has no effect without MLXCEL_MLA_ABSORBED";
    }
  }
  if (absorbed == Switch::kUnset) return Attention::kAuto;
  if (absorbed == Switch::kOff) return Attention::kDecompressed;
  return split ? Attention::kSplitKv : Attention::kAbsorbed;
}

}  // namespace mla
