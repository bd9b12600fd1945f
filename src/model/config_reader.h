// Reads config.json and generation_config.json of a Hugging Face model directory.
// Called by: engine (load), cli (inspect), fuzz, tests. Thread-safety: stateless.
#ifndef MLA_MODEL_CONFIG_READER_H_
#define MLA_MODEL_CONFIG_READER_H_

#include <string>
#include <string_view>

#include "model/config.h"

namespace mla {

/// Reads `directory`/config.json, and the end-of-sequence ids of generation_config.json if there is
/// one. Throws kNotFound if there is no config.json, kBadInput for a missing, malformed or
/// contradictory field (the message names it), kUnsupported for a model_type, router, rope type or
/// weight format that this build does not know.
ModelConfig ReadConfig(const std::string& directory);

/// The same for the text of a config.json; `label` names it in messages.
ModelConfig ParseConfig(std::string_view text, const std::string& label);

/// Sampling defaults of `directory`/generation_config.json; greedy if there is no such file.
/// Throws kBadInput for malformed fields.
GenerationDefaults ReadGenerationDefaults(const std::string& directory);

}  // namespace mla

#endif  // MLA_MODEL_CONFIG_READER_H_
