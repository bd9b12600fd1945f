// Picks the next token from logits.
// Called by: engine/session. Thread-safety: stateless.
#ifndef MLA_ENGINE_SAMPLER_H_
#define MLA_ENGINE_SAMPLER_H_

#include <cstdint>
#include <span>

#include "mla/options.h"

namespace mla {

/// `history`: the tokens so far, oldest first; the last 64 are penalised. `position` selects the
/// random number together with options.seed, so that a draw depends on nothing else.
/// Order: repeat penalty, temperature, top_k, top_p, min_p, as in transformers. Ties go to the
/// lower id. Throws kUsage naming an option out of range.
int32_t SampleToken(std::span<const float> logits, std::span<const int32_t> history,
                    int64_t position, const SamplingOptions& options);

/// Throws kUsage naming the first option that is out of range or NaN.
void ValidateSampling(const SamplingOptions& options);

}  // namespace mla

#endif  // MLA_ENGINE_SAMPLER_H_
