// Which paths served each attention call, counted.
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

/// The paths that served one attention call.
struct PathSet {
  std::array<bool, 4> used = {};

  void Use(AttentionPath path) { used[static_cast<size_t>(path)] = true; }
};

/// One count per attention call (layer x step) and path, however many sequences of the call took
/// the path. A call whose sequences take different paths counts once for each of these.
struct PathStats {
  std::array<int64_t, 4> counts = {};

  void Add(const PathSet& call) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += call.used[i] ? 1 : 0;
  }
  int64_t operator[](AttentionPath path) const { return counts[static_cast<size_t>(path)]; }
  void Reset() { counts = {}; }
};

}  // namespace mla

#endif  // MLA_ATTENTION_STATS_H_
