// Widths of one MLA layer, in the symbols of docs/mla.md, and the bytes that follow from them.
// Called by: model (config, loader), attention, layers, engine, cli. Thread-safety: a value.
#ifndef MLA_ATTENTION_GEOMETRY_H_
#define MLA_ATTENTION_GEOMETRY_H_

#include <cstdint>
#include <string>

#include "kernels/elem.h"

namespace mla {

/// Any positive widths are legal; r must be even (pairs are rotated).
struct MlaGeometry {
  int64_t heads = 0;    ///< H: query heads
  int64_t nope = 0;     ///< n: qk_nope_head_dim, score width without position
  int64_t rope = 0;     ///< r: qk_rope_head_dim, rotated width
  int64_t v_dim = 0;    ///< v: v_head_dim
  int64_t kv_rank = 0;  ///< Rk: kv_lora_rank, latent width
  int64_t q_rank = 0;   ///< Rq: q_lora_rank; 0: direct q_proj

  int64_t qk_dim() const { return nope + rope; }         ///< n + r
  int64_t latent_dim() const { return kv_rank + rope; }  ///< Rk + r, one cached latent row
  int64_t decompressed_dim() const { return heads * (nope + rope + v_dim); }
  int64_t kv_b_rows() const { return heads * (nope + v_dim); }
  int64_t fold_elements() const { return kv_b_rows() * kv_rank; }  ///< H(n+v)Rk

  /// Throws kBadInput naming the first field that is not positive (q_rank may be 0), an odd r,
  /// or the product that overflows.
  void Validate() const;
};

/// Bytes per token and layer, the only place where they are computed (docs/mla.md section 4).
/// `type`: of the cache. Latent (Rk+r)·e; with int8 Rk + 2r + 4 for the row's scale, Rk rounded up
/// to a multiple of 4. Decompressed H(n+r+v)·e, with e of DecompressedElem(type).
int64_t LatentBytesPerToken(const MlaGeometry& g, Elem type);
int64_t DecompressedBytesPerToken(const MlaGeometry& g, Elem type);

/// What a decompressed cache stores where a latent one stores `type`: there is no decompressed
/// int8, so bf16 stands beside it.
constexpr Elem DecompressedElem(Elem type) noexcept {
  return type == Elem::kInt8 ? Elem::kBf16 : type;
}

}  // namespace mla

#endif  // MLA_ATTENTION_GEOMETRY_H_
