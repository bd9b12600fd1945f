#include <memory>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/json_input.h"
#include "cli/jsonl.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "mla/tools.h"

namespace mla {
namespace {

struct DetokenizeArgs {
  std::string model;
  PromptArgs prompt;
  bool skip_special = false;
  bool json = false;
  bool jsonl = false;
};

/// --tokens, or a file with comma-separated ids or a JSON list.
std::vector<int32_t> InputTokens(const PromptArgs& prompt) {
  if (prompt.tokens.has_value() == prompt.file.has_value()) {
    Fail(ErrorCode::kUsage, "expected exactly one of --tokens N,N,... and -f FILE");
  }
  if (prompt.tokens) return ParseTokens(*prompt.tokens, "--tokens");
  const std::string what = *prompt.file == "-" ? "standard input" : "'" + *prompt.file + "'";
  const std::string text = ReadInput(*prompt.file);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (text[first] != '[' && text[first] != '{')) {
    return ParseTokens(text, what);
  }
  return TokensFromJson(text, what);
}

int RunDetokenize(const DetokenizeArgs& args) {
  if (args.jsonl && args.prompt.tokens) {
    Fail(ErrorCode::kUsage, "--jsonl reads standard input or -f FILE, not --tokens");
  }
  const std::vector<int32_t> tokens =
      args.jsonl ? std::vector<int32_t>() : InputTokens(args.prompt);
  const TextCodec codec = TextCodec::Load(args.model);
  if (args.jsonl) {
    AnswerLines(args.prompt.file, [&](std::string_view line, const std::string& where) {
      return JsonText().Add("text",
                            codec.Decode(TokensFromJsonObject(line, where), args.skip_special));
    });
    return 0;
  }
  const std::string text = codec.Decode(tokens, args.skip_special);
  Output out;
  out.Line(args.json ? JsonText().Add("text", text).Text() : text);
  out.Flush();
  return 0;
}

}  // namespace

void AddDetokenize(Command root) {
  auto args = std::make_shared<DetokenizeArgs>();
  Command command = root.AddSubcommand("detokenize", "Token ids to text");
  AddModelOption(command, args->model);
  AddTokensOption(command, args->prompt);
  AddFileOption(command, args->prompt, "Read the ids from a file ('-': standard input)");
  command.AddFlag("--skip-special", "Leave special tokens out of the text",
                  [args] { args->skip_special = true; });
  AddJsonFlag(command, "Print {\"text\":...}", args->json);
  command.AddFlag("--jsonl", "Read {\"tokens\":[...]} per line, print {\"text\":...} per line",
                  [args] { args->jsonl = true; });
  command.SetFooter(
      "Examples:\n"
      "  mla detokenize -m models/stories-mla --tokens 0,2986,638,262,534\n"
      "  mla tokenize -m models/stories-mla -p 'A fox' | mla detokenize -m models/stories-mla -f "
      "-\n");
  command.SetAction([args] { return RunDetokenize(*args); });
}

}  // namespace mla
