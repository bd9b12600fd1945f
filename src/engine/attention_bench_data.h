// Synthetic weights, caches and step inputs of the attention bench.
// Called by: engine/attention_bench*.cc. Thread-safety: one owner.
#ifndef MLA_ENGINE_ATTENTION_BENCH_DATA_H_
#define MLA_ENGINE_ATTENTION_BENCH_DATA_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "attention/fold.h"
#include "attention/geometry.h"
#include "attention/kv_cache.h"
#include "ops/context.h"
#include "ops/linear.h"
#include "tensor/buffer.h"

namespace mla {

/// Steps rotate through this many inputs.
inline constexpr int64_t kBenchInputs = 4;

/// What a layer hands to the attention block in one decode step, one row per sequence.
struct BenchInput {
  FloatBuffer q;       ///< [batch, H, n + r], rotated and multiplied by the softmax scale
  FloatBuffer latent;  ///< [batch, Rk + r], after norm and rotation
};

/// Memory that a BenchData of this size, its workspace and scratch take, in bytes. Throws kBadInput
/// if it does not fit in 63 bits.
struct BenchMemory {
  int64_t decompressed = 0;  ///< caches of one layer, all sequences
  int64_t latent = 0;
  int64_t rest = 0;
  int64_t total = 0;
};
BenchMemory PlanBenchMemory(const MlaGeometry& geometry, Elem type, int64_t batch, int64_t context,
                            int threads);

/// One layer, `batch` sequences with `context` + 1 cached positions each, in both layouts. The rows
/// of both layouts come from the same random latents; the position `context` is left to the steps.
/// Weights and rows have unit variance after projection and the scores a standard deviation of 2,
/// so that neither one key nor all of them decide.
struct BenchData {
  BenchData(OpContext& context_, const MlaGeometry& geometry_, Elem type, int64_t batch,
            int64_t context);

  /// Stores a step's rows at `position` of the first `batch` sequences, as a decode step does:
  /// rounded to the latent cache; up-projected, then rounded, to the decompressed one.
  void AppendLatent(OpContext& op, const BenchInput& input, int64_t batch, int64_t position);
  void AppendDecompressed(OpContext& op, const BenchInput& input, int64_t batch, int64_t position);

  MlaGeometry geometry;
  Buffer weights;  ///< bf16 [H(n+v), Rk]
  Linear kv_b;
  LayerFold fold;
  std::deque<KvCache> latent;  ///< by sequence; deques, since a cache stays where it is
  std::deque<KvCache> decompressed;
  std::vector<BenchInput> inputs;

 private:
  struct Target {
    KvCache* cache;
    int64_t position;
  };
  // Rows of `source` [rows, Rk + r] to one position each.
  template <typename TargetFn>
  void StoreDecompressed(OpContext& op, const float* source, int64_t rows, TargetFn target);
  template <typename TargetFn>
  void StoreLatent(OpContext& op, const float* source, int64_t rows, TargetFn target);
  void FillCache(OpContext& op, int64_t sequence, int64_t context);

  FloatBuffer kv_;  // [max(batch, fill block), H(n+v)]
};

}  // namespace mla

#endif  // MLA_ENGINE_ATTENTION_BENCH_DATA_H_
