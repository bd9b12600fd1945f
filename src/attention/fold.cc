#include "attention/fold.h"

#include <fmt/core.h>

namespace mla {

LayerFold BuildFold(const MlaGeometry& geometry, const Linear& kv_b) {
  LayerFold fold;
  const WeightView& w = kv_b.weight;
  if (w.empty()) {
    fold.decline = "there is no kv_b_proj";
  } else if (kv_b.bias != nullptr) {
    fold.decline = "kv_b_proj has a bias, which no product of the latent can absorb";
  } else if (!IsDenseFloat(w.dtype)) {
    fold.decline =
        fmt::format("kv_b_proj is stored as {}; expected f32, f16 or bf16", DTypeName(w.dtype));
  } else if (w.rows != geometry.kv_b_rows() || w.cols != geometry.kv_rank) {
    fold.decline = fmt::format("kv_b_proj is [{}, {}]; expected [H(n+v), Rk] = [{}, {}]", w.rows,
                               w.cols, geometry.kv_b_rows(), geometry.kv_rank);
  } else {
    fold.kv_b = w;
  }
  return fold;
}

}  // namespace mla
