#include "cli/prompt.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "cli/options.h"
#include "cli/utf8.h"

namespace mla {

void AddTextOptions(Command command, PromptArgs& args) {
  command.AddText("-p,--prompt", "TEXT", "The text itself",
                  [&args](const std::string& text) { args.text = text; });
  AddFileOption(command, args, "Read the text from a file ('-': standard input)");
}

void AddFileOption(Command command, PromptArgs& args, const std::string& description) {
  command.AddText("-f,--file", "FILE", description,
                  [&args](const std::string& text) { args.file = text; });
}

void AddTokensOption(Command command, PromptArgs& args) {
  command.AddText("--tokens", "N,N,...", "Token ids, taken as they are: no BOS is added",
                  [&args](const std::string& text) { args.tokens = text; });
}

std::string PromptText(const PromptArgs& args) {
  if (args.text.has_value() == args.file.has_value()) {
    Fail(ErrorCode::kUsage, "expected exactly one of -p TEXT and -f FILE");
  }
  std::string text = args.text ? *args.text : ReadInput(*args.file);
  RequireUtf8(text, args.text          ? std::string("-p")
                    : args.file == "-" ? std::string("standard input")
                                       : "'" + *args.file + "'");
  return text;
}

void CheckInputSize(size_t size, const std::string& what) {
  if (size > kMaxInputBytes) {
    Fail(ErrorCode::kBadInput, "{} is larger than {} MiB, the most that is read", what,
         kMaxInputBytes >> 20);
  }
}

std::string ReadInput(const std::string& path) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) Fail(ErrorCode::kNotFound, "cannot open '{}': {}", path, std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  ssize_t n = 0;
  while (text.size() <= kMaxInputBytes && (n = read(fd, buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  const int error = errno;
  if (!standard_input) close(fd);
  const std::string what = standard_input ? std::string("standard input") : "'" + path + "'";
  if (n < 0) Fail(ErrorCode::kNotFound, "cannot read {}: {}", what, std::strerror(error));
  CheckInputSize(text.size(), what);
  return text;
}

std::vector<int32_t> ParseTokens(const std::string& text, const std::string& name) {
  constexpr const char* kBlank = " \t\r\n";
  if (text.find_first_not_of(kBlank) == std::string::npos) {
    Fail(ErrorCode::kUsage, "{}: expected token ids such as 1,2,3", name);
  }
  std::vector<int32_t> tokens;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    std::string item = text.substr(begin, comma - begin);
    item.erase(item.find_last_not_of(kBlank) + 1);
    item.erase(0, item.find_first_not_of(kBlank));
    tokens.push_back(
        static_cast<int32_t>(ParseInteger(item, 0, std::numeric_limits<int32_t>::max(), name)));
    begin = comma + 1;
  }
  return tokens;
}

std::string JoinTokens(const std::vector<int32_t>& tokens) {
  return fmt::format("{}", fmt::join(tokens, ","));
}

}  // namespace mla
