// Aligned, zero-filled memory that becomes resident as it is touched.
// Called by: attention (caches), model (activations, converted tensors).
// Thread-safety: the object is owned by one thread; its bytes may be shared.
#ifndef MLA_TENSOR_BUFFER_H_
#define MLA_TENSOR_BUFFER_H_

#include <cstdint>
#include <utility>

namespace mla {

/// kHuge: the system is asked for pages of 2 MiB where a buffer fills them, which become resident
/// as a whole. For memory that is read again and again and is full sooner or later.
enum class Pages { kUsual, kHuge };

/// Owns `bytes` of memory aligned to 64 bytes (to a page for 64 KiB and more). Movable.
class Buffer {
 public:
  Buffer() = default;
  /// Throws kBadInput if bytes is negative, kResource if the memory is not to be had.
  explicit Buffer(int64_t bytes, Pages pages = Pages::kUsual);
  ~Buffer();
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  bool mapped_ = false;
};

/// A Buffer of floats: `count` elements, zero-filled.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(int64_t count);
  float* data() const { return buffer_.as<float>(); }
  int64_t size() const { return buffer_.bytes() / 4; }
  float& operator[](int64_t i) const { return data()[i]; }

 private:
  Buffer buffer_;
};

}  // namespace mla

#endif  // MLA_TENSOR_BUFFER_H_
