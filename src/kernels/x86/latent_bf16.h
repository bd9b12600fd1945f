// Absorbed attention over bf16 latents with products of bf16 pairs: the shared part of two
// families, VDPBF16PS and AMX. Queries are split in two bf16 parts, weights are rounded to bf16.
// Called by: kernels/latent.cc, tests. Thread-safety: as kernels/latent.h; a task's calls stay on
// one thread, whose tiles the AMX family holds from Begin to Finish.
#ifndef MLA_KERNELS_X86_LATENT_BF16_H_
#define MLA_KERNELS_X86_LATENT_BF16_H_

#include "kernels/latent.h"

namespace mla {

/// Heads of a group, and fp32 columns of a block: the lanes of a 512-bit vector.
inline constexpr int64_t kBf16Lanes = 16;
/// Pairs of a step of the scores, and pairs of rows of a step of the output: the depth of a tile.
inline constexpr int64_t kBf16Pairs = 16;
inline constexpr int64_t kBf16Depth = 2 * kBf16Pairs;
/// Cached rows of a block: the rows of a tile.
inline constexpr int64_t kBf16Block = 16;
/// Blocks of one call of Bf16Products::scores.
inline constexpr int64_t kBf16Blocks = 4;
/// Floats of one operand of a product: 16 rows of 64 bytes.
inline constexpr int64_t kBf16TileFloats = kBf16Pairs * kBf16Lanes;
/// Blocks of columns of the output that share one interleaved piece, which stays in the L1 cache.
inline constexpr int64_t kBf16PieceBlocks = 2;

/// Fetches the next tile towards the L2 cache, a few lines per step of the work on this one.
struct Bf16Prefetch {
  const char* at = nullptr;
  const char* end = nullptr;
  int64_t lines = 0;  ///< per block and step of the scores

  void Next(int64_t count) {
    constexpr int64_t kLine = 64;
    for (int64_t i = 0; i < count && at < end; ++i, at += kLine) __builtin_prefetch(at, 0, 2);
  }
};

/// scores[row] = the query's parts times row, for up to kBf16Blocks blocks of cached rows and the
/// heads of one group. A row is `whole` steps in the cache, at most one in `tail`, the rest of
/// `steps` in `rope`. Rows and columns beyond those that there are must be 0 in what is read.
struct Bf16Scores {
  const char* block[kBf16Blocks] = {};  ///< first row of each block of kBf16Block
  int64_t row_bytes[kBf16Blocks] = {};  ///< from one row of a block to the next
  int64_t blocks = 0;
  int64_t steps = 0;  ///< of kBf16Pairs pairs
  int64_t whole = 0;
  int64_t tails = 0;           ///< 0 or 1
  const char* tail = nullptr;  ///< [kBf16Blocks * kBf16Block, kBf16Pairs] pairs of columns
  const char* rope = nullptr;  ///< [kBf16Blocks * kBf16Block, (steps - whole - tails) * kBf16Pairs]
  int64_t parts = 0;           ///< of the query, 1 or 2
  const float* q = nullptr;    ///< [steps, part_stride, kBf16Pairs, kBf16Lanes] pairs
  int64_t part_stride = 0;     ///< parts that there are, of which the first `parts` are taken
  float* scores = nullptr;     ///< [kBf16Blocks * kBf16Block, kBf16Lanes]
  Bf16Prefetch* prefetch = nullptr;

  /// Step `step` of block `b`: kBf16Block rows of kBf16Pairs pairs, `stride` bytes apart.
  const char* Rows(int64_t b, int64_t step, int64_t& stride) const {
    constexpr int64_t kStepBytes = 4 * kBf16Pairs;
    if (step < whole) {
      stride = row_bytes[b];
      return block[b] + step * kStepBytes;
    }
    const bool of_tail = step < whole + tails;
    const int64_t first = of_tail ? whole : whole + tails;
    stride = (of_tail ? 1 : steps - first) * kStepBytes;
    return (of_tail ? tail : rope) + b * kBf16Block * stride + (step - first) * kStepBytes;
  }
};

/// acc += p·rows for one group of heads and one piece of columns.
struct Bf16Output {
  float* acc = nullptr;      ///< [kBf16PieceBlocks, heads, kBf16Lanes]
  int64_t heads = 0;         ///< 1 to kBf16Lanes
  const float* p = nullptr;  ///< [heads, kLatentTileRows] bf16, as pairs of rows
  int64_t rows = 0;          ///< cached rows that the query sees; p and piece are 0 from there on
                             ///< to the next multiple of kBf16Depth
  const float* piece = nullptr;  ///< [kLatentTileRows / kBf16Depth, kBf16PieceBlocks, kBf16Pairs,
                                 ///< kBf16Lanes] pairs of rows
};

/// The two products of a family. Every element is one chain in the order of its depth, whatever
/// stands beside it.
struct Bf16Products {
  /// Before products: scores only if rest is 0, else output only, of groups of 16 and `rest` heads.
  void (*begin)(int64_t rest);
  void (*scores)(const Bf16Scores& work);
  void (*output)(const Bf16Output& work);
  void (*end)();
};

/// VDPBF16PS, and TDPBF16PS. Null where the build has none.
const Bf16Products* Bf16DotProducts() noexcept;
const Bf16Products* AmxBf16Products() noexcept;

/// True for bf16 latents with k_rope in fp16.
bool LatentBf16Takes(const LatentFormat& format) noexcept;

/// As the functions of kernels/latent.h. They need AVX-512 (F, BW, VL, DQ) whatever the products.
int64_t LatentBf16ScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) noexcept;
void LatentBf16Begin(const LatentTask& task, const Bf16Products& products) noexcept;
void LatentBf16Tile(const LatentTask& task, const LatentTileRows& tile,
                    const Bf16Products& products) noexcept;
void LatentBf16Finish(const LatentTask& task, const Bf16Products& products) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_X86_LATENT_BF16_H_
