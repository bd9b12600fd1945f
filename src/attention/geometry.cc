#include "attention/geometry.h"

#include "base/check.h"
#include "kernels/latent_int8.h"

namespace mla {

void MlaGeometry::Validate() const {
  const struct {
    const char* name;
    int64_t value;
    int64_t least;
  } fields[] = {
      {"num_attention_heads", heads, 1}, {"qk_nope_head_dim", nope, 1},
      {"qk_rope_head_dim", rope, 1},     {"v_head_dim", v_dim, 1},
      {"kv_lora_rank", kv_rank, 1},      {"q_lora_rank", q_rank, 0},
  };
  constexpr int64_t kMost = 1 << 20;  // far above any model; keeps every product below in 63 bits
  for (const auto& f : fields) {
    if (f.value < f.least || f.value > kMost) {
      Fail(ErrorCode::kBadInput, "{} is {}; expected {} to {}", f.name, f.value, f.least, kMost);
    }
  }
  if (rope % 2 != 0) {
    Fail(ErrorCode::kBadInput, "qk_rope_head_dim is {}; expected an even number", rope);
  }
  const int64_t rows = CheckedMul(heads, nope + v_dim, "num_attention_heads x (nope + v)");
  CheckedMul(CheckedMul(rows, kv_rank, "kv_b_proj elements"), 8, "kv_b_proj bytes");
}

int64_t LatentBytesPerToken(const MlaGeometry& g, Elem type) {
  if (type == Elem::kInt8) return Int8RowBytes(g.kv_rank, g.rope);
  return g.latent_dim() * ElemSize(type);
}

int64_t DecompressedBytesPerToken(const MlaGeometry& g, Elem type) {
  return g.decompressed_dim() * ElemSize(DecompressedElem(type));
}

}  // namespace mla
