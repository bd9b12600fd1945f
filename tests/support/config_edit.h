// A golden checkpoint's config.json with edits.
// Called by: tests of model. Thread-safety: stateless.
#ifndef MLA_TESTS_SUPPORT_CONFIG_EDIT_H_
#define MLA_TESTS_SUPPORT_CONFIG_EDIT_H_

#include <string>

#include <nlohmann/json.hpp>

#include "model/config_reader.h"
#include "support/temp_dir.h"

namespace mla {

inline std::string GoldenDirectory(const std::string& name) {
  return std::string(MLA_TEST_DATA) + "/goldens/" + name;
}

inline nlohmann::json GoldenConfig(const std::string& name) {
  return nlohmann::json::parse(ReadWholeFile(GoldenDirectory(name) + "/config.json"));
}

inline ModelConfig ParseConfig(const nlohmann::json& json) {
  return ParseConfig(json.dump(), "config.json");
}

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_CONFIG_EDIT_H_
