// Absorbed attention over int8 latent rows: how a row is stored, and the kernel behind
// kernels/latent.h for it.
// Called by: kernels/latent.cc, attention/kv_cache.cc, tests. Thread-safety: pure functions on
// their arguments.
#ifndef MLA_KERNELS_LATENT_INT8_H_
#define MLA_KERNELS_LATENT_INT8_H_

#include "kernels/latent.h"

namespace mla {

/// A row is c_kv as int8 [rank, padded to a multiple of 4], one fp32 scale, k_rope as fp16 [rope]:
/// c_kv[x] = scale · int8[x]. `rope` must be even, so that every scale is aligned.
constexpr int64_t Int8ScaleOffset(int64_t rank) noexcept { return (rank + 3) / 4 * 4; }
constexpr int64_t Int8RopeOffset(int64_t rank) noexcept { return Int8ScaleOffset(rank) + 4; }
constexpr int64_t Int8RowBytes(int64_t rank, int64_t rope) noexcept {
  return Int8RopeOffset(rank) + 2 * rope;
}

/// Symmetric: scale = max|x| / 127, rounded to nearest. A row with a NaN or an infinity gets the
/// scale NaN, so that it stays visible. Each stored element is within scale / 2 (and 2^-22 of
/// max|x| for the arithmetic) of what was given.
void QuantizeInt8Row(const float* c_kv, int64_t rank, void* row) noexcept;
/// out[x] = scale · int8[x].
void DequantizeInt8Row(const void* row, int64_t rank, float* out) noexcept;

/// Largest magnitude of a quantised query element. Its products with `rank` int8 elements add up in
/// 32 bits: 15 bits for a rank up to 512, 12 for 4096.
constexpr int64_t Int8QueryMax(int64_t rank) noexcept {
  const int64_t most = 0x7fffffff / (127 * rank);
  return most > 32767 ? 32767 : most;
}
/// Largest magnitude of a quantised weight; a tile's products add up in 32 bits as well.
inline constexpr int64_t kInt8WeightMax = 32767;
static_assert(kInt8WeightMax * 127 * kLatentRunRows < 0x7fffffff);

/// What Latent{Begin,Tile,Finish} and LatentScratchFloats do for Elem::kInt8.
int64_t LatentInt8ScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) noexcept;
void LatentInt8Begin(const LatentTask& task) noexcept;
void LatentInt8Tile(const LatentTask& task, const LatentTileRows& tile) noexcept;
void LatentInt8Finish(const LatentTask& task) noexcept;

/// The family that int8 rows get with a unit: "amx-int8", "vnni512", "vnni256" (VPDPWSSD), or
/// "pairs": products of 16-bit pairs in plain vectors. All but the first give the same bits.
const char* Int8LatentFamily(DotUnit unit) noexcept;

namespace reference {
void LatentInt8Tile(const LatentTask& task, const LatentTileRows& tile) noexcept;
}  // namespace reference

}  // namespace mla

#endif  // MLA_KERNELS_LATENT_INT8_H_
