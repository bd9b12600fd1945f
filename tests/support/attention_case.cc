#include "support/attention_case.h"

#include <cmath>

namespace mla {
namespace {

StoredMatrix MakeKvB(const MlaGeometry& g, uint64_t seed, Elem type) {
  Random random(seed);
  return StoredMatrix::Normal(random, g.kv_b_rows(), g.kv_rank, type,
                              1 / std::sqrt(static_cast<double>(g.kv_rank)));
}

}  // namespace

AttentionCase::AttentionCase(const MlaGeometry& g, int64_t window, int64_t query_rows,
                             uint64_t seed, Elem weights)
    : geometry(g), length(window), rows(query_rows), kv_b(MakeKvB(g, seed, weights)) {
  Random random(seed + 1000);
  latent = random.Normals(length * g.latent_dim());
  q = random.Normals(rows * g.heads * g.qk_dim(), 1 / std::sqrt(static_cast<double>(g.qk_dim())));
}

OracleResult AttentionCase::Want(CacheLayout layout, Elem type, bool causal) const {
  std::vector<float> stored = latent;
  if (layout == CacheLayout::kLatent) OracleRound(geometry, type, stored);
  OracleKv kv = OracleUpProject(geometry, kv_b.values(), stored);
  if (layout == CacheLayout::kDecompressed) OracleRound(geometry, type, kv);
  return OracleAttention(geometry, kv, q, length - rows, causal);
}

LayerFold AttentionCase::Fold() const { return BuildFold(geometry, {ViewOf(kv_b), nullptr}); }

void WriteRows(KvCache& cache, const MlaGeometry& g, int64_t layer, int64_t first,
               const std::vector<float>& kv_b, const std::vector<float>& latent) {
  const int64_t count = static_cast<int64_t>(latent.size()) / g.latent_dim();
  const KernelTable& kernels = ReferenceKernels();
  if (cache.layout() == CacheLayout::kLatent) {
    for (int64_t i = 0; i < count; ++i) {
      cache.StoreLatent(kernels, layer, first + i, latent.data() + i * g.latent_dim());
    }
    return;
  }
  const OracleKv kv = OracleUpProject(g, kv_b, latent);
  const std::vector<float> k(kv.k.begin(), kv.k.end());
  const std::vector<float> v(kv.v.begin(), kv.v.end());
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t h = 0; h < g.heads; ++h) {
      const int64_t row = i * g.heads + h;
      const float* key = k.data() + row * g.qk_dim();
      cache.StoreHead(kernels, layer, h, first + i, key, key + g.nope, v.data() + row * g.v_dim);
    }
  }
}

void FillRows(KvCache& cache, const MlaGeometry& g, int64_t layers, int64_t first, int64_t count,
              float value) {
  const std::vector<float> row(static_cast<size_t>(g.latent_dim() + g.qk_dim() + g.v_dim), value);
  const KernelTable& kernels = ReferenceKernels();
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (int64_t p = first; p < first + count; ++p) {
      if (cache.layout() == CacheLayout::kLatent) {
        cache.StoreLatent(kernels, layer, p, row.data());
        continue;
      }
      for (int64_t h = 0; h < g.heads; ++h) {
        cache.StoreHead(kernels, layer, h, p, row.data(), row.data(), row.data());
      }
    }
  }
}

std::unique_ptr<KvCache> MakeCache(const AttentionCase& c, CacheLayout layout, Elem type,
                                   int64_t first_position) {
  constexpr int64_t kSegment = KvCache::kSegmentTokens;
  const int64_t begin = first_position / kSegment * kSegment;
  const int64_t end = (first_position + c.length + kSegment - 1) / kSegment * kSegment;
  auto cache = std::make_unique<KvCache>(c.geometry, kCaseLayers, layout, type, end - begin, begin);
  cache->Extend(end - begin);
  FillRows(*cache, c.geometry, kCaseLayers, begin, end - begin, kNaN);
  cache->Trim(end - first_position - c.length);
  cache->TrimFront(first_position - begin);
  WriteRows(*cache, c.geometry, kCaseLayer, first_position, c.kv_b.values(), c.latent);
  return cache;
}

int64_t AnyScratchFloats(const MlaGeometry& g, CacheLayout layout, const LatentUnits& units) {
  int64_t most = 0;
  for (const Elem type : {Elem::kF32, Elem::kF16, Elem::kBf16, Elem::kInt8}) {
    most = std::max(most, AttentionScratchFloats(g, layout, type, units));
  }
  return most;
}

AttentionRunner::AttentionRunner(const MlaGeometry& g, CacheLayout layout, int threads,
                                 int64_t max_sequences, const KernelTable& kernels,
                                 const LatentUnits& units)
    : geometry_(g),
      harness_(threads, AnyScratchFloats(g, layout, units), kernels, units),
      workspace_(g, layout, max_sequences) {}

std::vector<float> AttentionRunner::Run(const LayerFold& fold, const std::vector<float>& q,
                                        const std::vector<AttentionItem>& items, DecodeMode mode,
                                        int64_t split_chunk) {
  const int64_t rows = static_cast<int64_t>(q.size()) / (geometry_.heads * geometry_.qk_dim());
  std::vector<float> out(static_cast<size_t>(rows * geometry_.heads * geometry_.v_dim), kNaN);
  AttentionCall call;
  call.geometry = &geometry_;
  call.fold = &fold;
  call.layer = kCaseLayer;
  call.q = q.data();
  call.out = out.data();
  call.items = items;
  call.policy = mode;
  call.policy.deterministic = deterministic;
  call.split_chunk = split_chunk;
  call.stats = &stats;
  RunAttention(harness_.context, workspace_, call);
  return out;
}

std::vector<float> RunCase(const AttentionCase& c, const Way& way, const CaseOptions& options) {
  const auto cache = MakeCache(c, way.layout, options.type, options.first_position);
  AttentionRunner runner(c.geometry, way.layout, options.threads, 1, *options.kernels,
                         options.units);
  const int64_t position = options.first_position + c.length - c.rows;
  return runner.Run(c.Fold(), c.q, {{cache.get(), 0, c.rows, position}}, way.mode,
                    options.split_chunk);
}

}  // namespace mla
