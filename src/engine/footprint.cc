#include <fmt/format.h>

#include "attention/geometry.h"
#include "base/check.h"
#include "engine/cache_elem.h"
#include "mla/tools.h"

namespace mla {
namespace {

MlaGeometry ToMla(const Geometry& g) {
  return {.heads = g.heads,
          .nope = g.nope,
          .rope = g.rope,
          .v_dim = g.v_dim,
          .kv_rank = g.kv_rank,
          .q_rank = 0};
}

}  // namespace

const std::vector<Geometry>& KnownGeometries() {
  // name, attention blocks, H, n, r, v, Rk; from the models' own config.json.
  static const std::vector<Geometry> known{
      {"deepseek-v2-lite", 27, 16, 128, 64, 128, 512},
      {"deepseek-v2", 60, 128, 128, 64, 128, 512},
      {"deepseek-v3", 61, 128, 128, 64, 128, 512},
      {"kimi-k2", 61, 64, 128, 64, 128, 512},
      {"moonlight", 27, 16, 128, 64, 128, 512},
      {"glm-4.7-flash", 47, 20, 192, 64, 256, 512},
      {"glm-5", 78, 64, 192, 64, 256, 512},
      {"minicpm3", 62, 40, 64, 32, 64, 256},
      {"mistral-small-4", 36, 32, 64, 64, 128, 256},
      {"mistral-large-3", 61, 128, 128, 64, 128, 512},
      {"longcat-flash", 56, 64, 128, 64, 128, 512},  // 28 layers with two attention blocks each
      {"youtu-llm-2b", 32, 16, 128, 64, 128, 512},
      {"a.x-k2-light", 48, 32, 64, 32, 64, 128},
      {"stories-mla", 6, 8, 32, 16, 32, 64},
  };
  return known;
}

const Geometry& FindGeometry(const std::string& name) {
  std::vector<std::string> names;
  for (const Geometry& known : KnownGeometries()) {
    if (known.name == name) return known;
    names.push_back(known.name);
  }
  Fail(ErrorCode::kUsage, "unknown geometry '{}'; known are {}", name, fmt::join(names, ", "));
}

std::vector<FootprintRow> Footprint(const Geometry& geometry, int64_t kv_heads, CacheType dtype,
                                    int64_t budget_bytes) {
  const MlaGeometry g = ToMla(geometry);
  g.Validate();
  if (geometry.layers <= 0) {
    Fail(ErrorCode::kBadInput, "layers: expected a positive number, found {}", geometry.layers);
  }
  if (kv_heads <= 0 || kv_heads > g.heads || g.heads % kv_heads != 0) {
    Fail(ErrorCode::kUsage, "kv heads: expected a divisor of the {} heads, found {}", g.heads,
         kv_heads);
  }
  const Elem type = CacheElem(dtype);
  const int64_t latent = LatentBytesPerToken(g, type);
  std::vector<FootprintRow> rows;
  const auto add = [&](std::string scheme, int64_t elements, int64_t bytes) {
    const int64_t all_layers = CheckedMul(bytes, geometry.layers, "cache bytes per token");
    rows.push_back({.scheme = std::move(scheme),
                    .elements = elements,
                    .bytes = bytes,
                    .bytes_all_layers = all_layers,
                    .ratio = static_cast<double>(bytes) / static_cast<double>(latent),
                    .tokens_in_budget = budget_bytes > 0 ? budget_bytes / all_layers : 0});
  };
  const int64_t head = g.nope + g.v_dim;
  const auto add_heads = [&](std::string scheme, int64_t heads) {
    const int64_t elements = CheckedMul(heads, head, "cache elements");
    add(std::move(scheme), elements, CheckedMul(elements, ElemSize(type), "cache bytes"));
  };
  add_heads("MHA", g.heads);
  add_heads(fmt::format("GQA-{}", kv_heads), kv_heads);
  add_heads("MQA", 1);
  add("MLA", g.latent_dim(), latent);
  add("MLA decompressed", g.decompressed_dim(), DecompressedBytesPerToken(g, type));
  return rows;
}

}  // namespace mla
