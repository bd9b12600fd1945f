#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "io/safetensors.h"

namespace mla {
namespace {

std::string SafetensorsName(DType dtype) {
  std::string name(DTypeName(dtype));
  for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

// Removes the temporary file unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path)
      : path_(fmt::format("{}.tmp{}", path, getpid())),
        file_(std::fopen(path_.c_str(), "wb"), &std::fclose) {
    if (!file_) Raise();
  }
  ~TemporaryFile() {
    if (!path_.empty()) std::remove(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void Write(const void* data, size_t bytes) {
    if (bytes > 0 && std::fwrite(data, 1, bytes, file_.get()) != bytes) Raise();
  }
  void RenameTo(const std::string& target) {
    if (std::fclose(file_.release()) != 0) Raise();
    if (std::rename(path_.c_str(), target.c_str()) != 0) Raise();
    path_.clear();
  }

 private:
  [[noreturn]] void Raise() const {
    Fail(ErrorCode::kIo, "{}: cannot be written: {}", path_, std::strerror(errno));
  }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace

void WriteSafetensors(const std::string& path, std::span<const SafetensorsTensor> tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::vector<int64_t> sizes;
  int64_t end = 0;
  for (const SafetensorsTensor& t : tensors) {
    int64_t bytes = DTypeSize(t.dtype);
    for (int64_t dim : t.shape) bytes = CheckedMul(bytes, dim, t.name);
    header[t.name] = {{"dtype", SafetensorsName(t.dtype)},
                      {"shape", t.shape},
                      {"data_offsets", {end, end + bytes}}};
    sizes.push_back(bytes);
    end += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins 8-byte aligned
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(text.size() >> (8 * i));

  TemporaryFile file(path);
  file.Write(length, sizeof(length));
  file.Write(text.data(), text.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    file.Write(tensors[i].data, static_cast<size_t>(sizes[i]));
  }
  file.RenameTo(path);
}

}  // namespace mla
