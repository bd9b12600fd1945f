#include <memory>
#include <optional>

#include <fmt/core.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/run_model.h"
#include "mla/engine.h"
#include "mla/tools.h"

namespace mla {
namespace {

struct LogitsArgs {
  EngineArgs engine;
  PromptArgs prompt;
  std::string tokens_file;
  std::string out;
  bool step = false;
};

/// [1,2,3] or {"tokens": [1,2,3]}
std::vector<int32_t> TokensFromFile(const std::string& path) {
  const std::string what = path == "-" ? "standard input" : "'" + path + "'";
  const Json json = ParseJson(ReadFile(path), what);
  if (!json.is_object()) return TokenList(json, what);
  if (!json.contains("tokens")) {
    Fail(ErrorCode::kBadInput, "{}: expected a list of token ids or an object with \"tokens\"",
         what);
  }
  return TokenList(json["tokens"], what + ": tokens");
}

std::vector<int32_t> InputTokens(const LogitsArgs& args) {
  if (args.prompt.tokens.has_value() == !args.tokens_file.empty()) {
    Fail(ErrorCode::kUsage, "expected exactly one of --tokens N,N,... and --tokens-file FILE");
  }
  std::vector<int32_t> tokens = args.prompt.tokens ? ParseTokens(*args.prompt.tokens, "--tokens")
                                                   : TokensFromFile(args.tokens_file);
  if (tokens.empty()) Fail(ErrorCode::kBadInput, "empty prompt: give at least one token id");
  return tokens;
}

int RunLogits(LogitsArgs& args) {
  const std::vector<int32_t> tokens = InputTokens(args);
  LogitsFile file(args.out);
  ResolveEngineArgs(args.engine);
  const Model model = Model::Load(args.engine.model, args.engine.load);
  const int64_t count = static_cast<int64_t>(tokens.size());
  FitContext(model, count, 0, args.engine.session);
  Session session(model, args.engine.session);
  file.Begin(count, model.info().vocab);
  const auto append = [&file](int64_t /*position*/, std::span<const float> row) {
    file.Append(row);
  };
  Stopwatch watch;
  if (args.step) {
    for (const int32_t& token : tokens) session.FeedForLogits({&token, 1}, append);
  } else {
    session.FeedForLogits(tokens, append);
  }
  file.Finish();
  PrintError(
      fmt::format("logits [{}, {}] in '{}' | {:.1f} t/s | attention={} isa={} threads={} | "
                  "paths={}",
                  count, model.info().vocab, args.out, Rate(count, watch.Seconds()),
                  AttentionName(session.attention()), model.isa(), model.threads(),
                  FormatPaths(session.stats().paths)));
  return 0;
}

}  // namespace

void AddLogits(CLI::App& app, Action& action) {
  auto args = std::make_shared<LogitsArgs>();
  CLI::App* sub = app.add_subcommand("logits", "Write the logits of every position to a file");
  AddEngineOptions(*sub, args->engine);
  AddTokensOption(*sub, args->prompt);
  sub->add_option("--tokens-file", args->tokens_file,
                  "JSON file with the token ids: [1,2,3] or {\"tokens\":[1,2,3]} ('-': standard "
                  "input)")
      ->type_name("FILE");
  sub->add_option("-o,--out", args->out, "File to write: tensor `logits`, F32 [tokens, vocab]")
      ->type_name("F.safetensors")
      ->required();
  sub->add_flag("--step", args->step, "Feed the tokens one at a time, as decoding does");
  sub->footer(
      "For comparing with other implementations; --compute f32 --cache-type f32 is the closest.\n"
      "\n"
      "Examples:\n"
      "  mla logits -m models/stories-mla --tokens 0,2986,638 --out l.safetensors\n"
      "  mla logits -m models/stories-mla --tokens-file ids.json --out l.safetensors \\\n"
      "      --attention absorbed --prefill-chunk 7 --compute f32 --cache-type f32\n");
  sub->callback([args, &action] { action = [args] { return RunLogits(*args); }; });
}

}  // namespace mla
