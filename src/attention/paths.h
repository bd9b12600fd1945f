// The implementations behind RunAttention.
// Called by: attention/attention.cc only. Thread-safety: as RunAttention.
#ifndef MLA_ATTENTION_PATHS_H_
#define MLA_ATTENTION_PATHS_H_

#include "attention/attention.h"

namespace mla {

/// Query rows of one head that share up-projected or cached tiles in one task.
inline constexpr int64_t kRowBlock = 512;
/// Where there are more threads than heads, blocks are cut down to this.
inline constexpr int64_t kLeastRowBlock = 64;
/// Most (row, head) pairs of one absorbed task: with V3's widths their state and queries take 550
/// KB in fp32, 800 KB for tiles, and stay in the L2 cache.
inline constexpr int64_t kTaskPairs = 128;
/// Heads of a task come in multiples of this, whole vectors on every instruction set.
inline constexpr int64_t kHeadUnit = 16;
constexpr int64_t PaddedHeads(int64_t heads) {
  return (heads + kHeadUnit - 1) / kHeadUnit * kHeadUnit;
}

/// workspace.items (few rows each, row_limit in total) against latent caches, absorbed.
void RunAbsorbed(OpContext& context, AttentionWorkspace& workspace, const AttentionCall& call);
/// One item with many rows against a latent cache: the window is up-projected tile by tile.
void RunUpProjected(OpContext& context, const AttentionCall& call, const AttentionItem& item);
/// Query rows of one task of RunPrefill: enough tasks for the threads, as far as that pays.
int64_t PrefillBlockRows(int64_t rows, int64_t heads, int threads);
/// Thread scratch of RunPrefill, 0 if the units do not serve it.
int64_t PrefillFloats(const MlaGeometry& geometry, Elem type, const LatentUnits& units);
/// What RunUpProjected does, with the kernel of kernels/prefill.h.
void RunPrefill(OpContext& context, const AttentionCall& call, const AttentionItem& item);
/// All items of the call against decompressed caches.
void RunDecompressed(OpContext& context, const AttentionCall& call);

}  // namespace mla

#endif  // MLA_ATTENTION_PATHS_H_
