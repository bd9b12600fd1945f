// Absorbed attention over latent rows: the kernel of decode, split-KV chunks and few-row steps.
// One latent row serves as key and value of every query head, so the heads are the M of two small
// matrix products per tile, with an online softmax between them.
// Called by: attention/absorbed.cc, one task per (sequence, chunk, heads). Thread-safety: pure
// functions on their arguments.
#ifndef MLA_KERNELS_LATENT_H_
#define MLA_KERNELS_LATENT_H_

#include <algorithm>

#include "kernels/elem.h"
#include "kernels/x86/dot_units.h"

namespace mla {

/// Most latent rows of one tile: what the families with matrix units fold in at once, so that their
/// sums are loaded and stored seldom. It stays in the L2 cache.
inline constexpr int64_t kLatentTileRows = 256;
/// What the others fold in at once: it stays in the L1 cache, in fp32.
inline constexpr int64_t kLatentRunRows = 64;

/// How a cached row lies in memory: c_kv [rank], then k_rope [rope]. With Elem::kInt8 as in
/// kernels/latent_int8.h; rope_type is fp16 then. And what multiplies such rows.
struct LatentFormat {
  Elem type = Elem::kF32;
  Elem rope_type = Elem::kF32;
  int64_t rank = 0;         ///< Rk
  int64_t rope = 0;         ///< r
  int64_t row_bytes = 0;    ///< from one row to the next
  int64_t rope_offset = 0;  ///< bytes from a row's start to its k_rope
  /// Usable in every thread that runs the kernels; one that does not serve such rows counts as kFma
  /// (kernels/latent_unit.h).
  DotUnit unit = DotUnit::kFma;
};

/// A run of tiles for `rows` consecutive query rows and `heads` of their heads:
///   s = q·[c_kv | k_rope], p = exp(s - max), out = sum p·c_kv / sum p, lse = log2 sum exp(s).
/// LatentBegin empties the state, LatentTile folds one tile in, LatentFinish writes the results.
/// A result does not depend on which other rows and heads are in the task.
struct LatentTask {
  const float* q = nullptr;   ///< [rows, heads, rank + rope], already multiplied by the scale
  int64_t q_row_stride = 0;   ///< elements between query rows
  int64_t q_head_stride = 0;  ///< elements between heads
  int64_t rows = 0;
  int64_t heads = 0;
  LatentFormat format;
  float* scratch = nullptr;  ///< LatentScratchFloats(format, rows, heads) floats, 64-byte aligned
  float* out = nullptr;      ///< [rows, heads, rank]
  int64_t out_row_stride = 0;
  int64_t out_head_stride = 0;
  float* lse = nullptr;  ///< [rows, heads], log2 units, or null; -inf for a row that saw no key
  int64_t lse_row_stride = 0;
};

/// `count` <= kLatentTileRows latent rows at `data`. Query row i sees the first visible + i of
/// them (none if that is negative, at most count); rows that nobody sees are not read.
struct LatentTileRows {
  const void* data = nullptr;
  int64_t count = 0;
  int64_t visible = 0;
  /// The next tile, fetched towards the cache meanwhile. Never dereferenced; may be null.
  const void* next = nullptr;
  int64_t next_count = 0;
};

/// Calls fn(run) for the tile's runs of kLatentRunRows rows, in order.
template <typename Fn>
void ForEachLatentRun(const LatentFormat& format, const LatentTileRows& tile, Fn fn) {
  const auto* data = static_cast<const char*>(tile.data);
  for (int64_t first = 0; first < tile.count; first += kLatentRunRows) {
    const int64_t next = first + kLatentRunRows;
    LatentTileRows run = tile;
    run.data = data + first * format.row_bytes;
    run.count = std::min(tile.count - first, kLatentRunRows);
    run.visible = tile.visible - first;
    if (next < tile.count) {
      run.next = data + next * format.row_bytes;
      run.next_count = tile.count - next;
    }
    run.next_count = std::min(run.next_count, kLatentRunRows);
    fn(run);
  }
}

/// What the format's unit needs.
int64_t LatentScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) noexcept;

void LatentBegin(const LatentTask& task) noexcept;
void LatentTile(const LatentTask& task, const LatentTileRows& tile) noexcept;
void LatentFinish(const LatentTask& task) noexcept;

namespace reference {
void LatentBegin(const LatentTask& task) noexcept;
void LatentTile(const LatentTask& task, const LatentTileRows& tile) noexcept;
void LatentFinish(const LatentTask& task) noexcept;
}  // namespace reference

}  // namespace mla

#endif  // MLA_KERNELS_LATENT_H_
