// Absorbed attention over int8 latents on AMX tiles: products of signed bytes, four at a time, with
// k_rope as pairs of bf16. Queries and weights are two bytes each.
// Called by: kernels/latent.cc, tests. Thread-safety: as kernels/latent.h; a task's calls stay on
// one thread, whose tiles the family holds from Begin to Finish.
#ifndef MLA_KERNELS_X86_LATENT_INT8_AMX_H_
#define MLA_KERNELS_X86_LATENT_INT8_AMX_H_

#include "kernels/x86/latent_bf16.h"

namespace mla {

/// Largest magnitude of a quantised query element and of a quantised weight: 256·high + low with
/// high and low signed bytes. Sums over a tile of weights fit into 32 bits.
inline constexpr int32_t kInt8AmxMax = 256 * 127 + 127;
static_assert(int64_t{kInt8AmxMax} * 127 * kLatentTileRows < 0x7fffffff);
/// Columns of a step of the scores, and rows of a step of the output: the depth of a tile.
inline constexpr int64_t kInt8Depth = 64;
/// Bytes of one operand of a product: 16 rows of 64 bytes.
inline constexpr int64_t kInt8TileBytes = 1024;
/// Blocks of kBf16Block rows of one call of the scores.
inline constexpr int64_t kInt8Blocks = 2;
/// Blocks of 16 columns of one call of the output.
inline constexpr int64_t kInt8PieceBlocks = 4;

/// Vector work that the tile products have time for.
struct Int8Beside {
  void (*run)(const Int8Beside& self, int64_t step) = nullptr;  ///< part `step` of it
};

/// sums[part][row] = part of the query times the row's c_kv, rope_sums alike for k_rope, for up to
/// kInt8Blocks blocks of cached rows and the heads of one group. Rows and columns beyond those that
/// there are must be readable; of bytes they may be anything if the query is 0 there.
struct Int8Scores {
  int64_t blocks = 0;          ///< of kBf16Block rows
  int64_t steps = 0;           ///< of kInt8Depth columns
  const char* rows = nullptr;  ///< [kInt8Blocks * kBf16Block], row_bytes apart
  int64_t row_bytes = 0;
  int64_t rope_steps = 0;         ///< of kBf16Pairs pairs
  const char* rope = nullptr;     ///< [kInt8Blocks * kBf16Block, rope_steps * kBf16Pairs] pairs
  int64_t parts = 0;              ///< of the query: 2, or 1 with both in its lanes
  const char* q = nullptr;        ///< [steps, parts, kInt8TileBytes] quads of columns by heads
  const float* q_rope = nullptr;  ///< [rope_steps, parts, kBf16TileFloats] pairs
  int32_t* sums = nullptr;        ///< [parts, kInt8Blocks * kBf16Block, kBf16Lanes]
  float* rope_sums = nullptr;     ///< the same
  const Int8Beside* beside = nullptr;  ///< `steps` parts, all before the first of k_rope; or null
};

/// sums = weights·rows for one group of heads and kInt8PieceBlocks blocks of columns.
struct Int8Output {
  int64_t heads = 0;            ///< rows of a part: kBf16Lanes, or `rest` where both parts share
  bool shared = false;          ///< one operand of 2·heads rows has both parts
  const char* p = nullptr;      ///< [2, heads, kLatentTileRows] bytes
  int64_t steps = 0;            ///< of kInt8Depth rows; p is 0 for rows that are not seen
  const char* quads = nullptr;  ///< tiles of quads of rows; from one block of columns to the next
  int64_t block_bytes = 0;      ///< so many bytes,
  int64_t step_bytes = 0;       ///< from one step to the next so many
  int32_t* sums = nullptr;      ///< [kInt8PieceBlocks, 2, heads, kBf16Lanes]
  Bf16Prefetch* prefetch = nullptr;
};

/// The tile operations of the family.
struct Int8TileProducts {
  /// Before products. `rest` > 0: scores until begin(0), or outputs of kBf16Lanes heads and of
  /// `rest` with both parts in one operand.
  void (*begin)(int64_t rest);
  void (*scores)(const Int8Scores& work);
  void (*output)(const Int8Output& work);
  void (*end)();
};

/// TDPBSSD and TDPBF16PS. Null where the build has none.
const Int8TileProducts* AmxInt8Products() noexcept;

/// As the functions of kernels/latent.h, for Elem::kInt8. They need AVX-512 (F, BW, VL, DQ).
int64_t LatentInt8AmxScratchFloats(const LatentFormat& format, int64_t rows,
                                   int64_t heads) noexcept;
void LatentInt8AmxBegin(const LatentTask& task, const Int8TileProducts& products) noexcept;
void LatentInt8AmxTile(const LatentTask& task, const LatentTileRows& tile,
                       const Int8TileProducts& products) noexcept;
void LatentInt8AmxFinish(const LatentTask& task, const Int8TileProducts& products) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_INT8_AMX_H_
