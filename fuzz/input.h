// What fuzz targets draw their cases from.
// Called by: fuzz/*.cc. Thread-safety: one thread.
#ifndef MLA_FUZZ_INPUT_H_
#define MLA_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>

namespace mla {

/// Numbers out of the input's bytes; zeros once they are used up.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  int64_t Below(int64_t n) {
    uint32_t value = 0;
    for (int i = 0; i < 2; ++i) value = value << 8 | (at_ < size_ ? data_[at_++] : 0u);
    return static_cast<int64_t>(value) % n;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

}  // namespace mla

#endif  // MLA_FUZZ_INPUT_H_
