// Fuzzes config.json; what it accepts must survive the loader, with no tensor there at all.
// Called by: libFuzzer. Thread-safety: one thread.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "mla/error.h"
#include "model/config_reader.h"
#include "model/loader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto empty = std::make_shared<const mla::Checkpoint>();
  mla::ModelConfig config;
  try {
    config = mla::ParseConfig({reinterpret_cast<const char*>(data), size}, "config.json");
  } catch (const mla::Error&) {
    return 0;
  }
  if (!std::isfinite(config.softmax_scale) || config.softmax_scale <= 0) std::abort();
  if (!std::isfinite(config.rope.attention_factor)) std::abort();
  try {
    mla::LoadWeights(config, empty);
  } catch (const mla::Error&) {
    return 0;
  }
  std::abort();  // a model without weights was accepted
}
