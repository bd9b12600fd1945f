// Binds the tensors of a checkpoint to the weights of a model.
// Called by: engine (load), tests. Thread-safety: stateless.
#ifndef MLA_MODEL_LOADER_H_
#define MLA_MODEL_LOADER_H_

#include <memory>

#include "io/checkpoint.h"
#include "model/config.h"
#include "model/weights.h"

namespace mla {

/// Dense f32, f16 and bf16 matrices are used in place, where the mapping has them; misaligned ones
/// are copied. Norms and biases are converted to fp32. The routed experts of a layer may come as
/// one tensor per expert and projection or as two packed ones.
///
/// Throws kBadInput with one message that names every missing, unexpected, mis-shaped and
/// wrongly-typed tensor (20 per kind, then a count), or a router bias that is not finite.
std::shared_ptr<const ModelWeights> LoadWeights(const ModelConfig& config,
                                                std::shared_ptr<const Checkpoint> checkpoint);

}  // namespace mla

#endif  // MLA_MODEL_LOADER_H_
