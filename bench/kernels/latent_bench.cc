// Absorbed attention of one decode step over a latent cache: one task with all heads, tile by tile
// as attention/absorbed.cc runs it.
#include <algorithm>
#include <memory>
#include <vector>

#include "attention/kv_cache.h"
#include "kernel_bench.h"
#include "kernels/isa.h"
#include "kernels/latent_unit.h"

namespace mla {
namespace {

constexpr int64_t kRank = 512, kRope = 64;
// 2.3 MB of bf16 rows, about a second-level cache; and 38 MB.
constexpr int64_t kTokens[] = {2048, 32768};
constexpr int64_t kHeads[] = {16, 20, 64, 128};

/// How the products with the rows are done.
struct Variant {
  Elem type;
  std::string isa;
  std::string unit;
  DotUnit products = DotUnit::kFma;
};

std::vector<Variant> Variants(const std::string& isa) {
  std::vector<Variant> variants;
  const auto add = [&](Elem type, LatentKind kind) {
    for (const DotUnit unit : kDotUnits) {
      if (!LatentUnitServes(unit, kind) || !DotUnitFitsIsa(unit, isa)) continue;
      if (!TryDotUnit(unit).empty()) continue;
      LatentFormat format;
      format.type = type;
      format.rope_type = Elem::kF16;
      format.unit = unit;
      const std::string name = LatentKernelName(format);
      // A VNNI unit of another width than the ISA's is not used.
      const bool used = kind == LatentKind::k16Bit || unit == DotUnit::kFma || name != "pairs";
      if (used) variants.push_back({.type = type, .isa = isa, .unit = name, .products = unit});
    }
  };
  add(Elem::kBf16, LatentKind::k16Bit);
  add(Elem::kInt8, LatentKind::kInt8);
  return variants;
}

// The largest of kTokens; rows repeat a pool of values, which the kernels cannot know.
const KvCache& CacheOf(Elem type) {
  static std::unique_ptr<KvCache> caches[2];
  std::unique_ptr<KvCache>& cache = caches[type == Elem::kInt8 ? 1 : 0];
  if (cache != nullptr) return *cache;
  const MlaGeometry geometry{.heads = 1, .nope = 1, .rope = kRope, .v_dim = 1, .kv_rank = kRank};
  const int64_t tokens = *std::max_element(std::begin(kTokens), std::end(kTokens));
  cache = std::make_unique<KvCache>(geometry, 1, CacheLayout::kLatent, type, tokens);
  cache->Extend(tokens);
  constexpr int64_t kPool = 4096;
  const FloatBuffer pool = RandomFloats(kPool + kRank + kRope, 1, 1);
  for (int64_t p = 0; p < tokens; ++p) {
    cache->StoreLatent(FastKernels(), 0, p, pool.data() + p * 31 % kPool);
  }
  return *cache;
}

void RunStep(const KvCache& cache, const LatentTask& task, int64_t tokens) {
  LatentBegin(task);
  for (int64_t p = 0; p < tokens; p += kLatentTileRows) {
    LatentTileRows tile;
    tile.data = cache.LatentRow(0, p);
    tile.count = kLatentTileRows;
    tile.visible = tokens - p;
    if (p + kLatentTileRows < tokens) {
      tile.next = cache.LatentRow(0, p + kLatentTileRows);
      tile.next_count = kLatentTileRows;
    }
    LatentTile(task, tile);
  }
  LatentFinish(task);
}

void BenchLatent(benchmark::State& state, const Variant& variant, int64_t heads, int64_t tokens) {
  ForceIsaByName(variant.isa);
  const KvCache& cache = CacheOf(variant.type);
  // Scores with a standard deviation of 1.
  constexpr double kScale = 1 / 24.0;
  static_assert(kRank + kRope == 24 * 24);
  const FloatBuffer q = RandomFloats(heads * (kRank + kRope), kScale, 2);
  LatentTask task;
  task.q = q.data();
  task.q_row_stride = heads * (kRank + kRope);
  task.q_head_stride = kRank + kRope;
  task.rows = 1;
  task.heads = heads;
  task.format = cache.latent_format(LatentUnits().Use(variant.products));
  const FloatBuffer scratch(LatentScratchFloats(task.format, 1, heads));
  const FloatBuffer out(heads * kRank), lse(heads);
  task.scratch = scratch.data();
  task.out = out.data();
  task.out_row_stride = heads * kRank;
  task.out_head_stride = kRank;
  task.lse = lse.data();
  task.lse_row_stride = heads;
  for (auto _ : state) {
    RunStep(cache, task, tokens);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  const auto pairs = static_cast<double>(heads * tokens);
  SetRates(state, pairs * 2 * (2 * kRank + kRope),
           static_cast<double>(tokens * task.format.row_bytes));
}

}  // namespace

void RegisterLatentBench(const std::string& isa) {
  for (const Variant& variant : Variants(isa)) {
    for (const int64_t heads : kHeads) {
      for (const int64_t tokens : kTokens) {
        const std::string name =
            std::string("latent/") + ElemName(variant.type) + "/heads:" + std::to_string(heads) +
            "/tokens:" + std::to_string(tokens) + "/" + variant.unit + "/" + isa;
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          BenchLatent(state, variant, heads, tokens);
        });
      }
    }
  }
}

}  // namespace mla
