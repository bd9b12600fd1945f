// The absorbed operands w_uk [H, n, Rk] and w_uv [H, v, Rk] of one layer, out of kv_b_proj.
// Called by: model at load; attention reads. Thread-safety: immutable after BuildFold.
#ifndef MLA_ATTENTION_FOLD_H_
#define MLA_ATTENTION_FOLD_H_

#include <string>

#include "attention/geometry.h"
#include "ops/linear.h"

namespace mla {

/// For dense formats the fold is a partition of kv_b_proj's rows, so it is a pair of views: no
/// element is copied and the original keeps serving the decompressed path (docs/decisions).
struct LayerFold {
  WeightView kv_b;          ///< [H(n+v), Rk], per head n rows of w_uk, then v rows of w_uv
  int64_t extra_bytes = 0;  ///< memory beside kv_b_proj
  std::string decline;      ///< why this layer cannot be folded; empty: folded

  bool folded() const { return decline.empty() && !kv_b.empty(); }
  /// [n, Rk] of head h.
  WeightView Uk(const MlaGeometry& g, int64_t h) const {
    return kv_b.Rows(h * (g.nope + g.v_dim), g.nope);
  }
  /// [v, Rk] of head h.
  WeightView Uv(const MlaGeometry& g, int64_t h) const {
    return kv_b.Rows(h * (g.nope + g.v_dim) + g.nope, g.v_dim);
  }
};

/// Never throws for a kv_b_proj that cannot be folded: the reason is in `decline`.
LayerFold BuildFold(const MlaGeometry& geometry, const Linear& kv_b);

}  // namespace mla

#endif  // MLA_ATTENTION_FOLD_H_
