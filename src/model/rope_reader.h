// The rope_scaling / rope_parameters part of config.json.
// Called by: model/config_reader. Thread-safety: stateless.
#ifndef MLA_MODEL_ROPE_READER_H_
#define MLA_MODEL_ROPE_READER_H_

#include <cstdint>

#include "io/json_file.h"
#include "ops/rope_table.h"

namespace mla {

/// What the two spellings say together.
struct RopeSettings {
  RopeConfig config;          ///< `style` is left as it is by default
  double mscale_squared = 1;  ///< factor on the softmax scale
};

/// Reads `rope_scaling` (with top-level `rope_theta`) or `rope_parameters`. Both present and saying
/// different things is kBadInput; a rope type other than default and yarn is kUnsupported.
RopeSettings ReadRope(const JsonObject& config, int64_t max_positions);

}  // namespace mla

#endif  // MLA_MODEL_ROPE_READER_H_
