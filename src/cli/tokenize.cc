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

struct TokenizeArgs {
  std::string model;
  PromptArgs prompt;
  bool no_special = false;
  bool plain = false;
  bool json = false;
  bool jsonl = false;
};

int RunTokenize(const TokenizeArgs& args) {
  if (args.jsonl && args.prompt.text) {
    Fail(ErrorCode::kUsage, "--jsonl reads standard input or -f FILE, not -p");
  }
  const std::string text = args.jsonl ? std::string() : PromptText(args.prompt);
  const TextCodec codec = TextCodec::Load(args.model);
  const auto encode = [&](const std::string& input) {
    return codec.Encode(input, !args.no_special, !args.plain);
  };
  if (args.jsonl) {
    AnswerLines(args.prompt.file, [&](std::string_view line, const std::string& where) {
      return JsonText().Add("tokens", encode(TextFromJsonObject(line, where)));
    });
    return 0;
  }
  const std::vector<int32_t> tokens = encode(text);
  Output out;
  out.Line(args.json ? JsonText().Add("tokens", tokens).Text() : JoinTokens(tokens));
  out.Flush();
  return 0;
}

}  // namespace

void AddTokenize(Command root) {
  auto args = std::make_shared<TokenizeArgs>();
  Command command = root.AddSubcommand("tokenize", "Text to token ids");
  AddModelOption(command, args->model);
  AddTextOptions(command, args->prompt);
  command.AddFlag("--no-special", "Without the post-processor's tokens (BOS ...)",
                  [args] { args->no_special = true; });
  command.AddFlag("--plain", "Special tokens in the text are ordinary text",
                  [args] { args->plain = true; });
  AddJsonFlag(command, "Print {\"tokens\":[...]}", args->json);
  command.AddFlag(
      "--jsonl",
      "Read {\"text\":...} or {\"bytes_hex\":...} per line, print {\"tokens\":[...]} per line",
      [args] { args->jsonl = true; });
  command.SetFooter(
      "Prints the ids on one line, separated by commas, as --tokens takes them. A directory that\n"
      "holds only tokenizer files is enough. In bytes_hex, invalid UTF-8 becomes U+FFFD.\n"
      "\n"
      "Examples:\n"
      "  mla tokenize -m models/stories-mla -p 'Once upon a time'\n"
      "  echo '{\"text\":\"Once\"}' | mla tokenize -m models/stories-mla --jsonl --no-special\n");
  command.SetAction([args] { return RunTokenize(*args); });
}

}  // namespace mla
