// The attention weights of one layer, made up, and the block in double.
// Called by: tests of layers. Thread-safety: one thread.
#ifndef MLA_TESTS_LAYERS_LAYER_CASE_H_
#define MLA_TESTS_LAYERS_LAYER_CASE_H_

#include <cmath>
#include <vector>

#include "layers/mla_attention.h"
#include "support/attention_case.h"

namespace mla {

struct LayerCase {
  LayerCase(const MlaGeometry& g, int64_t hidden_size, RopeStyle rope_style, Elem type,
            uint64_t seed);
  MlaWeights Weights() const;
  /// What the block adds to the residual for x [T, D] at positions 0 .. T - 1.
  std::vector<double> Want(const std::vector<float>& x) const;

  MlaGeometry geometry;
  int64_t hidden;
  RopeStyle style;
  double scale;
  RopeConfig rope;
  Random random;
  StoredMatrix q_proj, q_a, q_b, kv_a, kv_b, o;
  std::vector<float> q_a_norm, kv_a_norm;
};

/// Feeds rows of one sequence to the block of layer 0, chunk by chunk.
class LayerRunner {
 public:
  LayerRunner(const LayerCase& c, const Way& way, Elem cache_type, int threads = 2);
  /// The residual [T, D] of the next rows, from zero.
  std::vector<float> Feed(const std::vector<float>& x);

  PathStats stats;

 private:
  const LayerCase& case_;
  Way way_;
  OpHarness harness_;
  MlaBuffers buffers_;
  KvCache cache_;
};

}  // namespace mla

#endif  // MLA_TESTS_LAYERS_LAYER_CASE_H_
