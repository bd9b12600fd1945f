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
namespace {

// A plain std::optional option would lose the difference between "" and absent.
void AddText(CLI::App& app, const std::string& names, std::optional<std::string>& target,
             const std::string& type, const std::string& description) {
  app.add_option_function<std::string>(
         names, [&target](const std::string& text) { target = text; }, description)
      ->type_name(type);
}

}  // namespace

void AddTextOptions(CLI::App& app, PromptArgs& args) {
  AddText(app, "-p,--prompt", args.text, "TEXT", "The text itself");
  AddFileOption(app, args, "Read the text from a file ('-': standard input)");
}

void AddFileOption(CLI::App& app, PromptArgs& args, const std::string& description) {
  AddText(app, "-f,--file", args.file, "FILE", description);
}

void AddTokensOption(CLI::App& app, PromptArgs& args) {
  AddText(app, "--tokens", args.tokens, "N,N,...", "Token ids, taken as they are: no BOS is added");
}

std::string PromptText(const PromptArgs& args) {
  if (args.text.has_value() == args.file.has_value()) {
    Fail(ErrorCode::kUsage, "expected exactly one of -p TEXT and -f FILE");
  }
  std::string text = args.text ? *args.text : ReadFile(*args.file);
  RequireUtf8(text, args.text          ? std::string("-p")
                    : args.file == "-" ? std::string("standard input")
                                       : "'" + *args.file + "'");
  return text;
}

std::string ReadFile(const std::string& path) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) Fail(ErrorCode::kNotFound, "cannot open '{}': {}", path, std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  ssize_t n = 0;
  while ((n = read(fd, buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  const int error = errno;
  if (!standard_input) close(fd);
  if (n < 0) {
    Fail(ErrorCode::kNotFound, "cannot read {}: {}",
         standard_input ? std::string("standard input") : "'" + path + "'", std::strerror(error));
  }
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
