#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace mla {
namespace {

constexpr int64_t kAlign = 64;
// From this size on pages come straight from the kernel: untouched ones cost nothing, and
// releasing the buffer returns them at once.
constexpr int64_t kMapFrom = 64 << 10;
constexpr int64_t kHugePage = 2 << 20;

// Null if the memory is not to be had.
void* Map(int64_t bytes, Pages pages) {
  // Room to begin at a multiple of the huge page; what is outside goes back at once.
  const int64_t slack = pages == Pages::kHuge && bytes >= kHugePage ? kHugePage : 0;
  void* p = mmap(nullptr, static_cast<size_t>(bytes + slack), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (slack == 0) return p;
  auto* base = static_cast<char*>(p);
  const auto head = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(p) % kHugePage);
  if (head > 0) munmap(base, static_cast<size_t>(head));
  // An end within a page keeps that page.
  constexpr int64_t kPage = 4096;
  const int64_t end = (head + bytes + kPage - 1) / kPage * kPage;
  if (end < bytes + slack) munmap(base + end, static_cast<size_t>(bytes + slack - end));
  // Refused, for example by a system without them: the usual pages serve as well.
  madvise(base + head, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return base + head;
}

}  // namespace

Buffer::Buffer(int64_t bytes, Pages pages) : bytes_(bytes) {
  if (bytes < 0) Fail(ErrorCode::kBadInput, "cannot allocate {} bytes", bytes);
  if (bytes == 0) return;
  if (bytes >= kMapFrom) {
    data_ = Map(bytes, pages);
    mapped_ = true;
  } else {
    const int64_t padded = (bytes + kAlign - 1) / kAlign * kAlign;
    data_ = std::aligned_alloc(kAlign, static_cast<size_t>(padded));
    if (data_ != nullptr) std::memset(data_, 0, static_cast<size_t>(padded));
  }
  if (data_ == nullptr) {
    Fail(ErrorCode::kResource,
         "out of memory: {} bytes are not to be had; use a smaller --ctx, a smaller --cache-type "
         "or a smaller model",
         bytes);
  }
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (mapped_) {
    munmap(data_, static_cast<size_t>(bytes_));
  } else {
    std::free(data_);
  }
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

FloatBuffer::FloatBuffer(int64_t count) : buffer_(CheckedMul(count, 4, "buffer")) {}

}  // namespace mla
