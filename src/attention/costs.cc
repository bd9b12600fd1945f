#include "attention/costs.h"

#include <algorithm>

#include "attention/paths.h"
#include "kernels/latent_unit.h"

namespace mla {
namespace {

// Factors over a multiply-add of an fp32 matrix product. From mla bench crossover and prefill on
// processors with AVX2, AVX-512 and AMX. kBf16Dot and kInt8 are guesses, and so is key_units of
// kTiles.
struct AbsorbedFactors {
  double pair;
  SplitCosts split;
};
constexpr AbsorbedFactors kVectors = {0.7, {56, 4, 8, 0.1}};
constexpr AbsorbedFactors kBf16Dot = {0.45, {56, 6, 12, 0.2}};
constexpr AbsorbedFactors kInt8 = {0.5, {56, 6, 12, 0.2}};
constexpr AbsorbedFactors kTiles = {0.19, {40, 9, 16, 0.4}};
// The projections of an absorbed row, of few rows at a time.
constexpr double kRowFactor = 1.3;

// Pairs: their products are short, and the softmax counts.
struct UpFactors {
  double key, pair;
};
constexpr UpFactors kUpVectors = {1, 1.2};
constexpr UpFactors kUpBf16Dot = {0.3, 0.5};
constexpr UpFactors kUpTiles = {0.14, 0.17};

const AbsorbedFactors& FactorsOf(const LatentFormat& format) {
  if (format.type == Elem::kInt8) return LatentInt8Products(format) != nullptr ? kTiles : kInt8;
  if (LatentProducts(format) == nullptr) return kVectors;
  return format.unit == DotUnit::kAmxBf16 ? kTiles : kBf16Dot;
}

const UpFactors& FactorsOf(DotUnit prefill) {
  if (prefill == DotUnit::kAmxBf16) return kUpTiles;
  return prefill == DotUnit::kBf16Dot ? kUpBf16Dot : kUpVectors;
}

}  // namespace

AttentionCosts ExpectedCosts(const MlaGeometry& geometry, const LatentFormat& format,
                             DotUnit prefill) {
  const AbsorbedFactors& absorbed = FactorsOf(format);
  const UpFactors& up = FactorsOf(prefill);
  AttentionCosts costs(geometry);
  costs.absorbed_pair *= absorbed.pair;
  costs.absorbed_row *= kRowFactor;
  costs.up_key *= up.key;
  costs.up_pair *= up.pair;
  costs.blocks_for_threads = prefill != DotUnit::kFma;
  costs.split = absorbed.split;
  return costs;
}

int64_t AbsorbedRowLimit(const MlaGeometry& g) {
  constexpr int64_t kMost = 64;
  const int64_t saving = 2 * g.kv_rank - g.nope - g.v_dim;
  if (saving <= 0) return kMost;
  return std::clamp<int64_t>(g.kv_rank * (g.nope + g.v_dim) / saving, 1, kMost);
}

AttentionCosts::AttentionCosts(const MlaGeometry& g)
    : absorbed_pair(static_cast<double>(2 * g.kv_rank + g.rope)),
      absorbed_row(static_cast<double>(g.kv_rank * (g.nope + g.v_dim))),
      up_key(absorbed_row),
      up_pair(static_cast<double>(g.qk_dim() + g.v_dim)) {}

bool PreferAbsorbed(const MlaGeometry& g, const AttentionCosts& costs, int threads, int64_t rows,
                    int64_t window) {
  // The last row sees the window, the others one key less each.
  const auto r = static_cast<double>(rows);
  const double pairs = r * static_cast<double>(window) - r * (r - 1) / 2;
  const auto heads = static_cast<double>(g.heads);
  const auto padded = static_cast<double>(PaddedHeads(g.heads));
  // Beginning and ending a task costs each of its rows as much as so many keys.
  const double absorbed = ((pairs + r * costs.split.task_keys) * costs.absorbed_pair * padded +
                           r * costs.absorbed_row * heads) /
                          static_cast<double>(threads);
  // One task per head and block of rows; each block up-projects its own window.
  const int64_t block_rows =
      costs.blocks_for_threads ? PrefillBlockRows(rows, g.heads, threads) : kRowBlock;
  const int64_t blocks = (rows + block_rows - 1) / block_rows;
  const double tasks = heads * static_cast<double>(blocks);
  const double task = static_cast<double>(window) * costs.up_key +
                      pairs / static_cast<double>(blocks) * costs.up_pair;
  const double per_thread = tasks / static_cast<double>(threads);
  return absorbed <= task * std::max(per_thread, 1.0);
}

}  // namespace mla
