#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fmt/core.h>

#include "base/check.h"
#include "mla/tools.h"

namespace mla {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0666;  // the process's umask applies

[[noreturn]] void FailToOpen(const std::string& path, int error) {
  Fail(ErrorCode::kIo, "cannot open '{}' for writing: {}", path, std::strerror(error));
}

/// Where the links of `path` lead, whether or not there is a file; "" for a descriptor of a process
/// (/dev/stdout), which has no name of its own.
std::string FollowLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel
  fs::path at = path;
  std::error_code error;
  for (int i = 0; fs::is_symlink(at, error); ++i) {
    if (i == kMostLinks) FailToOpen(path, ELOOP);
    const fs::path link = fs::read_symlink(at, error);
    if (error) FailToOpen(path, error.value());
    at = at.parent_path() / link;  // an absolute link replaces the whole
    if (fs::weakly_canonical(at.parent_path(), error).native().starts_with("/proc/")) return "";
  }
  return at.native();
}

std::string DirectoryOf(const std::string& file) {
  const std::string directory = fs::path(file).parent_path().native();
  return directory.empty() ? "." : directory;
}

}  // namespace

LogitsFile::LogitsFile(const std::string& path) : path_(path) {
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) FailToOpen(path, errno);
  if (!exists || S_ISREG(status.st_mode)) target_ = FollowLinks(path);
  if (target_.empty()) {
    fd_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) FailToOpen(path, errno);
    return;
  }
  if (exists) mode_ = status.st_mode & 07777;
  if (path.ends_with('/')) FailToOpen(path, EISDIR);
  if ((exists && access(target_.c_str(), W_OK) != 0) ||
      access(DirectoryOf(target_).c_str(), W_OK | X_OK) != 0) {
    FailToOpen(path, errno);
  }
}

LogitsFile::~LogitsFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void LogitsFile::OpenTemporary() {
  for (int i = 0; fd_ < 0; ++i) {
    const std::string name =
        fmt::format("{}/.mla-logits-{}-{}.tmp", DirectoryOf(target_), getpid(), i);
    fd_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
    if (fd_ >= 0) {
      temporary_ = name;
    } else if (errno != EEXIST) {
      FailToOpen(path_, errno);
    }
  }
  // Whoever could read the older file can read the new one; no harm where that cannot be set.
  if (mode_ != 0) static_cast<void>(fchmod(fd_, mode_));
}

void LogitsFile::Begin(int64_t rows, int64_t vocab) {
  const int64_t bytes =
      CheckedMul(CheckedMul(rows, vocab, "logits"), int64_t{sizeof(float)}, "logits");
  rows_ = rows;
  vocab_ = vocab;
  begun_ = true;
  if (fd_ < 0) OpenTemporary();
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
  if (close(fd) != 0 ||
      (!temporary_.empty() && std::rename(temporary_.c_str(), target_.c_str()) != 0)) {
    Fail(ErrorCode::kIo, "cannot write '{}': {}", path_, std::strerror(errno));
  }
  temporary_.clear();
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
