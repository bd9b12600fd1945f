#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include "base/check.h"
#include "mla/tools.h"

namespace mla {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

LogitsFile::LogitsFile(const std::string& path) : path_(path) {
  struct stat status {};
  created_ = stat(path.c_str(), &status) != 0 && errno == ENOENT;
  constexpr mode_t kMode = 0666;  // the process's umask applies
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kMode);
  if (fd_ < 0) {
    Fail(ErrorCode::kIo, "cannot open '{}' for writing: {}", path, std::strerror(errno));
  }
}

LogitsFile::~LogitsFile() {
  if (fd_ < 0) return;
  // Half a file must not pass for a result; a file that was there before and is untouched stays.
  struct stat status {};
  const bool regular = fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  close(fd_);
  if (!finished_ && regular && (created_ || begun_)) unlink(path_.c_str());
}

void LogitsFile::Begin(int64_t rows, int64_t vocab) {
  const int64_t bytes =
      CheckedMul(CheckedMul(rows, vocab, "logits"), int64_t{sizeof(float)}, "logits");
  rows_ = rows;
  vocab_ = vocab;
  begun_ = true;
  struct stat status {};
  if (fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) && ftruncate(fd_, 0) != 0) {
    Fail(ErrorCode::kIo, "cannot truncate '{}': {}", path_, std::strerror(errno));
  }
  std::string header =
      fmt::format(R"({{"logits":{{"dtype":"F32","shape":[{},{}],"data_offsets":[0,{}]}}}})", rows,
                  vocab, bytes);
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the format aligns the data to 8 bytes
  const uint64_t length = header.size();
  Write(&length, sizeof length);
  Write(header.data(), header.size());
}

void LogitsFile::Append(std::span<const float> row) {
  if (!begun_ || static_cast<int64_t>(row.size()) != vocab_ || written_ == rows_) {
    Fail(ErrorCode::kUsage, "logits file: expected row {} of {} with {} values, found {} values",
         written_ + 1, rows_, vocab_, row.size());
  }
  Write(row.data(), row.size_bytes());
  ++written_;
}

void LogitsFile::Finish() {
  if (!begun_ || written_ != rows_) {
    Fail(ErrorCode::kUsage, "logits file: expected {} rows, found {}", rows_, written_);
  }
  const int fd = fd_;
  fd_ = -1;
  finished_ = true;
  if (close(fd) != 0) {
    Fail(ErrorCode::kIo, "cannot write '{}': {}", path_, std::strerror(errno));
  }
}

void LogitsFile::Write(const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = write(fd_, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) Fail(ErrorCode::kIo, "cannot write '{}': {}", path_, std::strerror(errno));
    at += n;
    size -= static_cast<size_t>(n);
  }
}

}  // namespace mla
