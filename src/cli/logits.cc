#include <memory>
#include <optional>

#include <fmt/core.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/json_input.h"
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

std::vector<int32_t> InputTokens(const LogitsArgs& args) {
  if (args.prompt.tokens.has_value() == !args.tokens_file.empty()) {
    Fail(ErrorCode::kUsage, "expected exactly one of --tokens N,N,... and --tokens-file FILE");
  }
  const std::string what =
      args.tokens_file == "-" ? "standard input" : "'" + args.tokens_file + "'";
  std::vector<int32_t> tokens = args.prompt.tokens
                                    ? ParseTokens(*args.prompt.tokens, "--tokens")
                                    : TokensFromJson(ReadInput(args.tokens_file), what);
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

void AddLogits(Command root) {
  constexpr bool kRequired = true;
  auto args = std::make_shared<LogitsArgs>();
  Command command = root.AddSubcommand("logits", "Write the logits of every position to a file");
  AddEngineOptions(command, args->engine);
  AddTokensOption(command, args->prompt);
  command.AddText("--tokens-file", "FILE",
                  "JSON file with the token ids: [1,2,3] or {\"tokens\":[1,2,3]} ('-': standard "
                  "input)",
                  [args](const std::string& text) { args->tokens_file = text; });
  command.AddText(
      "-o,--out", "F.safetensors", "File to write: tensor `logits`, F32 [tokens, vocab]",
      [args](const std::string& text) { args->out = text; }, kRequired);
  command.AddFlag("--step", "Feed the tokens one at a time, as decoding does",
                  [args] { args->step = true; });
  command.SetFooter(
      "For comparing with other implementations; --compute f32 --cache-type f32 is the closest.\n"
      "\n"
      "Examples:\n"
      "  mla logits -m models/stories-mla --tokens 0,2986,638 --out l.safetensors\n"
      "  mla logits -m models/stories-mla --tokens-file ids.json --out l.safetensors \\\n"
      "      --attention absorbed --prefill-chunk 7 --compute f32 --cache-type f32\n");
  command.SetAction([args] { return RunLogits(*args); });
}

}  // namespace mla
