#include <filesystem>
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

/// The output must not take the place of what the run reads.
void CheckOutput(const LogitsArgs& args) {
  namespace fs = std::filesystem;
  std::error_code none;  // of files that do not exist: the run itself names them
  if (args.out == "-") {
    Fail(ErrorCode::kUsage,
         "--out: expected a file, found '-': the logits are binary and do not go "
         "to standard output");
  }
  if (!args.tokens_file.empty() && fs::equivalent(args.tokens_file, args.out, none)) {
    Fail(ErrorCode::kUsage, "--out: '{}' is the file of --tokens-file", args.out);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(args.engine.model, none)) {
    const std::string name = entry.path().filename().native();
    const bool of_model = name.ends_with(".json") || name.starts_with("model");
    if (of_model && fs::equivalent(entry.path(), args.out, none)) {
      Fail(ErrorCode::kUsage, "--out: '{}' is a file of the model", args.out);
    }
  }
}

/// Returns the number of tokens fed: fewer than there are after Ctrl-C.
int64_t WriteRows(const LogitsArgs& args, const std::vector<int32_t>& tokens, Session& session,
                  LogitsFile& file) {
  const auto append = [&file](int64_t /*position*/, std::span<const float> row) {
    file.Append(row);
  };
  const auto keep_going = [](int64_t /*done*/, int64_t /*total*/) { return !Interrupted(); };
  const std::span<const int32_t> all(tokens);
  if (!args.step) return session.FeedForLogits(all, append, keep_going);
  size_t done = 0;
  while (done < all.size() && session.FeedForLogits(all.subspan(done, 1), append, keep_going) > 0) {
    ++done;
  }
  return static_cast<int64_t>(done);
}

int RunLogits(LogitsArgs& args) {
  constexpr bool kTerminate = true;
  CheckOutput(args);
  const std::vector<int32_t> tokens = InputTokens(args);
  LogitsFile file(args.out);
  ResolveEngineArgs(args.engine);
  const Model model = Model::Load(args.engine.model, args.engine.load);
  const int64_t count = static_cast<int64_t>(tokens.size());
  CheckTokens(model, tokens);
  FitContext(model, count, 0, args.engine.session);
  Session session(model, args.engine.session);
  CatchInterrupt(kTerminate);
  file.Begin(count, model.info().vocab);
  Stopwatch watch;
  const int64_t done = WriteRows(args, tokens, session, file);
  if (done < count) {
    PrintError(fmt::format("interrupted after {} of {} tokens; '{}' is not written", done, count,
                           args.out));
    return InterruptStatus();
  }
  file.Finish();
  PrintError(fmt::format(
      "logits [{}, {}] in '{}' | {:.1f} t/s | attention={} isa={} kernel={} threads={} | "
      "paths={}",
      count, model.info().vocab, args.out, Rate(count, watch.Seconds()),
      AttentionName(session.attention()), model.isa(), session.kernel(), model.threads(),
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
      "A file of that name is replaced only when all rows are there; after Ctrl-C or a failure it "
      "is\n"
      "as it was. Ctrl-C ends the command with status 130.\n"
      "\n"
      "Examples:\n"
      "  mla logits -m models/stories-mla --tokens 0,2986,638 --out l.safetensors\n"
      "  mla logits -m models/stories-mla --tokens-file ids.json --out l.safetensors \\\n"
      "      --attention absorbed --prefill-chunk 7 --compute f32 --cache-type f32\n");
  command.SetAction([args] { return RunLogits(*args); });
}

}  // namespace mla
