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
/// Columns of a step of the scores, and cached rows of a step of the output: the depth of a tile.
inline constexpr int64_t kBf16Depth = 32;
/// Cached rows of a block: the rows of a tile.
inline constexpr int64_t kBf16Block = 16;
inline constexpr int64_t kBf16Blocks = kLatentTileRows / kBf16Block;
/// Blocks of columns of the output that share one interleaved piece: 8 KB of a tile's rows.
inline constexpr int64_t kBf16PieceBlocks = 4;

/// Fetches the next tile towards the L2 cache, a few lines per step of the work on this one.
struct Bf16Prefetch {
  const char* at = nullptr;
  const char* end = nullptr;
  int64_t lines = 0;  ///< per step

  void Next() {
    constexpr int64_t kLine = 64;
    for (int64_t i = 0; i < lines && at < end; ++i, at += kLine) __builtin_prefetch(at, 0, 2);
  }
};

/// scores[panel][row] = q[panel]·row, over the columns of c_kv, for whole blocks of cached rows.
/// Rows and columns beyond those that there are must be 0 in what is read.
struct Bf16Scores {
  const char* block[kBf16Blocks] = {};  ///< first row of each block of kBf16Block
  int64_t row_bytes[kBf16Blocks] = {};  ///< from one row of a block to the next
  int64_t blocks = 0;
  int64_t steps = 0;           ///< of kBf16Depth columns
  int64_t whole = 0;           ///< steps that `block` serves; one more is in `tail`
  const char* tail = nullptr;  ///< [kLatentTileRows, kBf16Depth] bf16
  const float* q = nullptr;    ///< [panels, steps * kBf16Depth / 2, kBf16Lanes] pairs of bf16
  int64_t panels = 0;
  float* scores = nullptr;  ///< [panels, kLatentTileRows, kBf16Lanes]
  bool rest = false;        ///< as Bf16Products::begin was told: some group is not whole
  Bf16Prefetch* prefetch = nullptr;
};

/// acc += p·rows for one group of heads and one piece of columns.
struct Bf16Output {
  float* acc = nullptr;      ///< [columns, heads, kBf16Lanes]
  int64_t heads = 0;         ///< 1 to kBf16Lanes
  const float* p = nullptr;  ///< [heads, kLatentTileRows] bf16, as pairs of rows
  int64_t rows = 0;          ///< cached rows that the query sees; p and piece are 0 from there on
                             ///< to the next multiple of kBf16Depth
  const float* piece = nullptr;  ///< [kLatentTileRows / kBf16Depth, kBf16PieceBlocks,
                                 ///< kBf16Depth / 2, kBf16Lanes] pairs of rows
  int64_t columns = 0;           ///< blocks of kBf16Lanes columns, an even number
  bool rest = false;             ///< as in Bf16Scores
};

/// The two products of a family. Every element is one chain in the order of its depth, whatever
/// stands beside it.
struct Bf16Products {
  void (*begin)(int64_t rest);  ///< `rest` heads beyond whole groups; before a task's products
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
