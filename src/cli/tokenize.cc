#include <memory>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/hex.h"
#include "cli/json.h"
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

/// The text of {"text": ...} or {"bytes_hex": ...}.
std::string LineText(const Json& line, const std::string& where) {
  const auto text = line.find("text");
  const auto hex = line.find("bytes_hex");
  const auto value = text != line.end() ? text : hex;
  if (value == line.end() || !value->is_string() || (text != line.end() && hex != line.end())) {
    Fail(ErrorCode::kBadInput,
         "{}: expected {{\"text\": \"...\"}} or {{\"bytes_hex\": \"...\"}} with a string", where);
  }
  const std::string& string = value->get_ref<const std::string&>();
  return text != line.end() ? string : ParseHex(string, where + ": bytes_hex");
}

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
    AnswerLines(args.prompt.file, [&](const Json& line, const std::string& where) {
      return Json{{"tokens", encode(LineText(line, where))}};
    });
    return 0;
  }
  const std::vector<int32_t> tokens = encode(text);
  Output out;
  out.Line(args.json ? Dump(Json{{"tokens", tokens}}) : JoinTokens(tokens));
  out.Flush();
  return 0;
}

}  // namespace

void AddTokenize(CLI::App& app, Action& action) {
  auto args = std::make_shared<TokenizeArgs>();
  CLI::App* sub = app.add_subcommand("tokenize", "Text to token ids");
  AddModelOption(*sub, args->model);
  AddTextOptions(*sub, args->prompt);
  sub->add_flag("--no-special", args->no_special, "Without the post-processor's tokens (BOS ...)");
  sub->add_flag("--plain", args->plain, "Special tokens in the text are ordinary text");
  sub->add_flag("--json", args->json, "Print {\"tokens\":[...]}");
  sub->add_flag("--jsonl", args->jsonl,
                "Read {\"text\":...} or {\"bytes_hex\":...} per line, print {\"tokens\":[...]} per "
                "line");
  sub->footer(
      "Prints the ids on one line, separated by commas, as --tokens takes them. A directory that\n"
      "holds only tokenizer files is enough. In bytes_hex, invalid UTF-8 becomes U+FFFD.\n"
      "\n"
      "Examples:\n"
      "  mla tokenize -m models/stories-mla -p 'Once upon a time'\n"
      "  echo '{\"text\":\"Once\"}' | mla tokenize -m models/stories-mla --jsonl --no-special\n");
  sub->callback([args, &action] { action = [args] { return RunTokenize(*args); }; });
}

}  // namespace mla
