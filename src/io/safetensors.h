// The safetensors format: header of a file in memory, and a writer.
// Called by: io/checkpoint, cli (logits), fuzz, tests. Thread-safety: stateless.
#ifndef MLA_IO_SAFETENSORS_H_
#define MLA_IO_SAFETENSORS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace mla {

/// Longest JSON header that the format's reference implementation accepts.
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

/// One tensor of a file. `offset` counts from the first byte of the file.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Reads the header of a whole file and checks all of it: JSON, names, dtypes, shapes, and that the
/// tensors cover the data without hole or overlap up to the last byte (the format's own rule). The
/// entries come in file order. `path` is for messages only. Throws kBadInput; kUnsupported for a
/// dtype name that this build does not know.
std::vector<SafetensorsEntry> ParseSafetensors(std::span<const uint8_t> file,
                                               const std::string& path);

/// A tensor to write; `data` holds the product of `shape` times the element size, row-major.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

/// Writes the tensors to `path`: first to a temporary file beside it, then renamed, so that no
/// reader ever sees half a file. Throws kIo if anything of that fails.
void WriteSafetensors(const std::string& path, std::span<const SafetensorsTensor> tensors);

}  // namespace mla

#endif  // MLA_IO_SAFETENSORS_H_
