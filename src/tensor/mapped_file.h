// A file mapped read-only into memory.
// Called by: io. Thread-safety: immutable after opening.
#ifndef MLA_TENSOR_MAPPED_FILE_H_
#define MLA_TENSOR_MAPPED_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

namespace mla {

/// Owns the mapping of one whole file. Pages stay in the page cache: shared between processes,
/// evictable. A file that shrinks while mapped faults on access (SIGBUS), as with any mmap.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws kNotFound if the path cannot be opened or is not a regular file, kResource if it
  /// cannot be mapped. An empty file gives size() == 0.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  const uint8_t* data_ = nullptr;
  int64_t size_ = 0;
  std::string path_;
};

}  // namespace mla

#endif  // MLA_TENSOR_MAPPED_FILE_H_
