// Fuzzes the safetensors header and, through a directory, the shard index.
// Called by: libFuzzer. Thread-safety: one thread.
//
// Input: one byte; if its top bit is set, its other bits x 16 bytes of index text; then the file.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "mla/error.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

// Everything an entry promises must be readable.
void CheckEntries(std::span<const uint8_t> file) {
  volatile uint8_t sink = 0;
  for (const SafetensorsEntry& entry : ParseSafetensors(file, "fuzz")) {
    if (entry.bytes == 0) continue;
    sink = file[static_cast<size_t>(entry.offset)];
    sink = file.data()[entry.offset + entry.bytes - 1];
  }
  static_cast<void>(sink);
}

void CheckDirectory(std::string_view index, std::string_view file) {
  static const TempDir dir;
  static const bool once = (dir.Write("b", std::string_view("\2\0\0\0\0\0\0\0{}", 10)), true);
  static_cast<void>(once);
  dir.Write("a", file);
  dir.Write("model.safetensors.index.json", index);
  const auto checkpoint = Checkpoint::Open(dir.path());
  for (const auto& [name, tensor] : checkpoint->tensors()) {
    if (checkpoint->Find(name) != &tensor) std::abort();
  }
}

}  // namespace
}  // namespace mla

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // Most inputs have no index: those need no file and run a hundred times faster.
  const size_t claimed = data[0] < 0x80 ? 0 : (data[0] & 0x7fu) * size_t{16};
  const size_t index_size = std::min(claimed, size - 1);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view index = text.substr(0, index_size);
  const std::string_view file = text.substr(index_size);
  try {
    mla::CheckEntries({data + 1 + index_size, file.size()});
  } catch (const mla::Error&) {
  }
  if (index.empty()) return 0;
  try {
    mla::CheckDirectory(index, file);
  } catch (const mla::Error&) {
  }
  return 0;
}
