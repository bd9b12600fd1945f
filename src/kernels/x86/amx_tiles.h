// AMX: the tile configuration, the tile product of the tries, the peak loops.
// Called by: dot_units. Thread-safety: tile state belongs to the calling thread; the operations
// themselves run only where dot_units has found AMX and its permission.
#ifndef MLA_KERNELS_X86_AMX_TILES_H_
#define MLA_KERNELS_X86_AMX_TILES_H_

#include <cstdint>

#include "kernels/x86/dot_product.h"

namespace mla {

/// The 64 bytes of LDTILECFG and STTILECFG (Intel SDM volume 2, LDTILECFG): palette 1 has eight
/// tiles of at most 16 rows of 64 bytes. Bytes without a name are reserved and must be zero.
struct alignas(64) TileConfig {
  uint8_t palette = 0;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};  // of tiles 0..7; the others are reserved
  uint8_t rows[16] = {};        // of tiles 0..7; the others are reserved
};
static_assert(sizeof(TileConfig) == 64);

/// The instructions that TileProduct runs. Tests replace them by a model of the tiles.
struct TileOps {
  void (*load_config)(const TileConfig& config);             ///< LDTILECFG
  void (*store_config)(TileConfig* config);                  ///< STTILECFG
  void (*load)(int tile, const void* base, int64_t stride);  ///< TILELOADD, tile 0..2
  void (*store)(int tile, void* base, int64_t stride);       ///< TILESTORED, tile 0
  void (*dot_bf16)();                                        ///< TDPBF16PS tmm0, tmm1, tmm2
  void (*dot_int8)();                                        ///< TDPBSSD tmm0, tmm1, tmm2
  void (*release)();                                         ///< TILERELEASE
};

/// The real ones; on other processors than x86-64 they do nothing.
const TileOps& RealTileOps() noexcept;

enum class TileType { kBf16, kInt8 };

/// Does the product in one tile instruction: configures the tiles of the calling thread for
/// exactly its sizes (C is tile 0, A 1, B 2), looks whether that took, releases them. Returns null,
/// or why it was not done.
const char* TileProduct(TileType type, DotProduct& product, const TileOps& ops);

/// Runs `rounds` rounds of tile products on full tiles and returns the operations done, two per
/// multiply-add. 0 on other processors.
int64_t TilePeakLoop(TileType type, int64_t rounds) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_X86_AMX_TILES_H_
