// Which path served each attention call, counted.
// Called by: attention (counts), engine and bench (read). Thread-safety: one owner at a time.
#ifndef MLA_ATTENTION_STATS_H_
#define MLA_ATTENTION_STATS_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace mla {

/// In the order in which they are always printed.
enum class AttentionPath { kDecompressed, kAbsorbedPrefill, kAbsorbedComposed, kAbsorbedSplitKv };
inline constexpr std::array<std::string_view, 4> kAttentionPathNames = {
    "decompressed", "absorbed_prefill", "absorbed_composed", "absorbed_split_kv"};

/// One count per (layer, step, sequence).
struct PathStats {
  std::array<int64_t, 4> counts = {};

  void Add(AttentionPath path) { ++counts[static_cast<size_t>(path)]; }
  int64_t operator[](AttentionPath path) const { return counts[static_cast<size_t>(path)]; }
  void Reset() { counts = {}; }
};

}  // namespace mla

#endif  // MLA_ATTENTION_STATS_H_
