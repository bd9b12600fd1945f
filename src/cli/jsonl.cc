#include "cli/jsonl.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "cli/output.h"
#include "cli/prompt.h"

namespace mla {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::optional<std::string>& file)
      : name_(file && *file != "-" ? "'" + *file + "'" : "standard input") {
    if (name_ == "standard input") return;
    fd_ = open(file->c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) Fail(ErrorCode::kNotFound, "cannot open {}: {}", name_, std::strerror(errno));
  }
  ~Descriptor() {
    if (fd_ != STDIN_FILENO) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  /// Appends what is there; false at the end.
  bool Read(std::string& to) {
    char buffer[1 << 16];
    ssize_t n = 0;
    do {
      n = read(fd_, buffer, sizeof buffer);
    } while (n < 0 && errno == EINTR);
    if (n < 0) Fail(ErrorCode::kNotFound, "cannot read {}: {}", name_, std::strerror(errno));
    to.append(buffer, static_cast<size_t>(n));
    return n > 0;
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  int fd_ = STDIN_FILENO;
};

}  // namespace

void AnswerLines(const std::optional<std::string>& file,
                 const std::function<JsonText(std::string_view, const std::string&)>& answer) {
  Descriptor input(file);
  Output out;
  int64_t line_number = 0;
  const auto handle = [&](std::string_view line) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const std::string where = fmt::format("{}, line {}", input.name(), line_number);
    try {
      out.Line(answer(line, where).Text());
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with(where)) throw;
      throw Error(error.code(), where + ": " + error.what());
    }
    out.Flush();
  };
  std::string pending;
  bool more = true;
  while (more) {
    size_t scanned = pending.size();
    more = input.Read(pending);
    size_t begin = 0;
    for (size_t end = 0; (end = pending.find('\n', scanned)) != std::string::npos;) {
      handle(std::string_view(pending).substr(begin, end - begin));
      begin = scanned = end + 1;
    }
    pending.erase(0, begin);
    CheckInputSize(pending.size(), fmt::format("{}, line {}", input.name(), line_number + 1));
  }
  if (!pending.empty()) handle(pending);
}

}  // namespace mla
