#include <memory>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/json.h"
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

std::vector<int32_t> LineTokens(const Json& line, const std::string& where) {
  const auto tokens = line.find("tokens");
  if (tokens == line.end()) {
    Fail(ErrorCode::kBadInput, "{}: expected {{\"tokens\": [...]}}", where);
  }
  return TokenList(*tokens, where + ": tokens");
}

/// --tokens, or a file with comma-separated ids or a JSON list.
std::vector<int32_t> InputTokens(const PromptArgs& prompt) {
  if (prompt.tokens.has_value() == prompt.file.has_value()) {
    Fail(ErrorCode::kUsage, "expected exactly one of --tokens N,N,... and -f FILE");
  }
  if (prompt.tokens) return ParseTokens(*prompt.tokens, "--tokens");
  const std::string what = *prompt.file == "-" ? "standard input" : "'" + *prompt.file + "'";
  const std::string text = ReadFile(*prompt.file);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (text[first] != '[' && text[first] != '{')) {
    return ParseTokens(text, what);
  }
  const Json json = ParseJson(text, what);
  return json.is_object() ? LineTokens(json, what) : TokenList(json, what);
}

int RunDetokenize(const DetokenizeArgs& args) {
  if (args.jsonl && args.prompt.tokens) {
    Fail(ErrorCode::kUsage, "--jsonl reads standard input or -f FILE, not --tokens");
  }
  const std::vector<int32_t> tokens =
      args.jsonl ? std::vector<int32_t>() : InputTokens(args.prompt);
  const TextCodec codec = TextCodec::Load(args.model);
  if (args.jsonl) {
    AnswerLines(args.prompt.file, [&](const Json& line, const std::string& where) {
      return Json{{"text", codec.Decode(LineTokens(line, where), args.skip_special)}};
    });
    return 0;
  }
  const std::string text = codec.Decode(tokens, args.skip_special);
  Output out;
  out.Line(args.json ? Dump(Json{{"text", text}}) : text);
  out.Flush();
  return 0;
}

}  // namespace

void AddDetokenize(CLI::App& app, Action& action) {
  auto args = std::make_shared<DetokenizeArgs>();
  CLI::App* sub = app.add_subcommand("detokenize", "Token ids to text");
  AddModelOption(*sub, args->model);
  AddTokensOption(*sub, args->prompt);
  AddFileOption(*sub, args->prompt, "Read the ids from a file ('-': standard input)");
  sub->add_flag("--skip-special", args->skip_special, "Leave special tokens out of the text");
  sub->add_flag("--json", args->json, "Print {\"text\":...}");
  sub->add_flag("--jsonl", args->jsonl,
                "Read {\"tokens\":[...]} per line, print {\"text\":...} per line");
  sub->footer(
      "Examples:\n"
      "  mla detokenize -m models/stories-mla --tokens 0,2986,638,262,534\n"
      "  mla tokenize -m models/stories-mla -p 'A fox' | mla detokenize -m models/stories-mla -f "
      "-\n");
  sub->callback([args, &action] { action = [args] { return RunDetokenize(*args); }; });
}

}  // namespace mla
