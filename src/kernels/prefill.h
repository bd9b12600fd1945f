// Attention of many query rows of one head over latent rows that are up-projected tile by tile,
// with products of bf16 pairs: the kernel of prefill where a unit for them is in use. Elsewhere
// attention composes it of MatmulNt and AttendTile.
// Called by: attention/decompressed.cc, one task per (head, block of rows). Thread-safety: pure
// functions on their arguments; a task's calls stay on one thread, whose tiles the AMX family holds
// from Begin to Finish.
#ifndef MLA_KERNELS_PREFILL_H_
#define MLA_KERNELS_PREFILL_H_

#include "kernels/latent.h"

namespace mla {

/// A run of tiles for `rows` consecutive query rows of one head:
///   k = [c_kv·w_ukᵀ | k_rope], v = c_kv·w_uvᵀ, s = q·k, p = exp(s - max), out = sum p·v / sum p.
/// k's part without position, v and the weights p are rounded to bf16; q and k_rope are not (two
/// parts). The order of each sum is fixed by the widths and the unit alone.
struct PrefillTask {
  const float* q = nullptr;  ///< [rows, nope + rope], already multiplied by the scale
  int64_t q_row_stride = 0;  ///< elements between query rows
  int64_t rows = 0;
  int64_t nope = 0, v_dim = 0;
  /// Of the latent rows. `unit`: kBf16Dot or kAmxBf16, with int8 rows too.
  LatentFormat format;
  const void* w_uk = nullptr;  ///< [nope, rank] bf16
  const void* w_uv = nullptr;  ///< [v_dim, rank] bf16
  int64_t w_stride = 0;        ///< elements between their rows
  float* scratch = nullptr;    ///< PrefillScratchFloats(...) floats, 64-byte aligned
  float* out = nullptr;        ///< [rows, v_dim]; a row that saw no key gives zeros
  int64_t out_row_stride = 0;
};

/// Most scratch of one task; a shape that would need more is not taken.
inline constexpr int64_t kMostPrefillFloats = 1 << 20;

/// True if PrefillBegin to PrefillFinish serve such rows and widths, up to `rows` query rows, with
/// the format's unit.
bool PrefillTakes(const LatentFormat& format, int64_t rows, int64_t nope, int64_t v_dim) noexcept;
int64_t PrefillScratchFloats(const LatentFormat& format, int64_t rows, int64_t nope,
                             int64_t v_dim) noexcept;

/// As LatentBegin, LatentTile and LatentFinish. tile.next is not used.
void PrefillBegin(const PrefillTask& task) noexcept;
void PrefillTile(const PrefillTask& task, const LatentTileRows& tile) noexcept;
void PrefillFinish(const PrefillTask& task) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_PREFILL_H_
