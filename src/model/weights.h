// All weights of a model and the memory behind them.
// Called by: model/loader (makes it), forward, engine (inspect). Thread-safety: immutable after
// load.
#ifndef MLA_MODEL_WEIGHTS_H_
#define MLA_MODEL_WEIGHTS_H_

#include <memory>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "layers/weights.h"
#include "tensor/buffer.h"

namespace mla {

/// Bytes and elements of one kind of weight, for `mla inspect`.
struct WeightKind {
  std::string kind;  ///< "embedding", "attention", "dense_mlp", "routed_experts", ...
  int64_t bytes = 0;
  int64_t parameters = 0;
};

struct ModelWeights {
  WeightView embedding;               ///< [V, D]
  WeightView lm_head;                 ///< [V, D]; the embedding itself if tied
  const float* final_norm = nullptr;  ///< [D]
  std::vector<LayerWeights> layers;

  std::vector<WeightKind> kinds;  ///< adds up to mapped_bytes + converted_bytes
  int64_t mapped_bytes = 0;       ///< used in place, in the page cache
  int64_t converted_bytes =
      0;  ///< copied into `buffers` (norms and biases to fp32, misaligned data)

  std::shared_ptr<const Checkpoint> checkpoint;  ///< keeps the mappings alive
  std::vector<Buffer> buffers;
};

}  // namespace mla

#endif  // MLA_MODEL_WEIGHTS_H_
