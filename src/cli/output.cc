#include "cli/output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "base/check.h"

namespace mla {
namespace {

constexpr size_t kBufferBytes = 1 << 16;
constexpr int kSignalStatus = 128;  // as shells count
volatile sig_atomic_t interrupt = 0;

void OnInterrupt(int signal) {
  if (interrupt != 0) _exit(kSignalStatus + signal);
  interrupt = signal;
}

}  // namespace

void Output::Write(std::string_view text) {
  buffer_.append(text);
  if (buffer_.size() >= kBufferBytes) Flush();
}

void Output::Line(std::string_view text) {
  Write(text);
  Write("\n");
}

void Output::Flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t n = write(STDOUT_FILENO, buffer_.data() + done, buffer_.size() - done);
    if (n >= 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      poll(&ready, 1, -1);
      continue;
    }
    const int error = errno;
    buffer_.clear();
    Fail(ErrorCode::kIo, "cannot write to standard output: {}", std::strerror(error));
  }
  buffer_.clear();
}

void PrintError(std::string_view line) {
  std::string text(line);
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

LogSink StderrLog(bool verbose) {
  return [verbose](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) {
      constexpr std::string_view kName = "mla: ";
      if (line.starts_with(kName)) line.remove_prefix(kName.size());
      PrintError("mla: warning: " + std::string(line));
    } else if (level == LogLevel::kNotice || verbose) {
      PrintError(line);
    }
  };
}

bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

void PrepareStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // open() takes the lowest free number, which is `fd`. The wrong direction makes every use fail.
    const int placeholder = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (placeholder != fd && placeholder >= 0) close(placeholder);
  }
  signal(SIGPIPE, SIG_IGN);
}

void CatchInterrupt(bool terminate) {
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  if (terminate) sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() noexcept { return interrupt != 0; }

int InterruptStatus() noexcept { return kSignalStatus + interrupt; }

int64_t PeakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  int64_t kib = usage.ru_maxrss;
  // The kernel counts per CPU and adds up late, so the figure above may lack several hundred KiB;
  // this one is exact, but of this moment.
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (!line.starts_with("Rss:")) continue;
    kib = std::max<int64_t>(kib, std::strtoll(line.c_str() + line.find(':') + 1, nullptr, 10));
  }
  return kib * 1024;
}

int64_t ProgramMemory(std::string_view data_suffix) {
  char name[4096];
  const ssize_t length = readlink("/proc/self/exe", name, sizeof name);
  const std::string_view program(name, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  // proc(5): a line "begin-end perms offset dev inode path" per mapping, then its "Size:", "Rss:"
  // ...
  std::ifstream smaps("/proc/self/smaps");
  int64_t kib = 0;
  bool data = false, own = false;
  for (std::string line; std::getline(smaps, line);) {
    const bool field = line.find(':') < line.find(' ');
    if (!field) {
      data = std::string_view(line).ends_with(data_suffix);
      own = length > 0 && std::string_view(line).ends_with(program);
    } else if (!data && line.starts_with(own ? "Size:" : "Rss:")) {
      kib += std::strtoll(line.c_str() + line.find(':') + 1, nullptr, 10);
    }
  }
  return kib * 1024;
}

}  // namespace mla
