#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/run_model.h"
#include "cli/stop_filter.h"
#include "cli/utf8.h"
#include "mla/engine.h"

namespace mla {
namespace {

constexpr int64_t kDefaultMaxTokens = 256;

struct GenerateArgs {
  EngineArgs engine;
  PromptArgs prompt;
  int64_t max_tokens = kDefaultMaxTokens;
  std::optional<double> temperature, top_p, min_p, repeat_penalty;
  std::optional<int64_t> top_k;
  uint64_t seed = 0;
  std::vector<std::string> stops;
  bool ignore_eos = false;
  bool json = false;
};

struct Generated {
  std::vector<int32_t> tokens;
  std::string text;  ///< filled only for --json
  const char* finish_reason = "length";
  int64_t prompt_fed = 0;  ///< fewer than the prompt has after Ctrl-C
  double prompt_seconds = 0;
  double decode_seconds = 0;
  int64_t decode_steps = 0;  ///< forward passes after the prompt's

  double PromptTps() const { return Rate(prompt_fed, prompt_seconds); }
  double DecodeTps() const { return Rate(decode_steps, decode_seconds); }
};

/// What the options say; read before the model is loaded, so that mistakes show at once.
struct PromptInput {
  std::optional<std::string> text;
  std::vector<int32_t> tokens;
};

PromptInput ReadPrompt(const PromptArgs& prompt) {
  const int given = prompt.text.has_value() + prompt.file.has_value() + prompt.tokens.has_value();
  if (given != 1) {
    Fail(ErrorCode::kUsage, "expected exactly one of -p TEXT, -f FILE and --tokens N,N,...");
  }
  PromptInput input;
  if (prompt.tokens) {
    input.tokens = ParseTokens(*prompt.tokens, "--tokens");
  } else {
    input.text = PromptText(prompt);
  }
  return input;
}

std::vector<int32_t> PromptTokens(const Model& model, const PromptInput& input) {
  if (!input.text) return input.tokens;
  std::vector<int32_t> tokens = model.Encode(*input.text);
  if (tokens.empty()) {
    Fail(ErrorCode::kBadInput,
         "empty prompt: this model has no BOS token to start from; give some text or --tokens");
  }
  return tokens;
}

SamplingOptions Sampling(const Model& model, const GenerateArgs& args) {
  SamplingOptions sampling = model.default_sampling();
  sampling.temperature = args.temperature.value_or(sampling.temperature);
  sampling.top_k = args.top_k.value_or(sampling.top_k);
  sampling.top_p = args.top_p.value_or(sampling.top_p);
  sampling.min_p = args.min_p.value_or(sampling.min_p);
  sampling.repeat_penalty = args.repeat_penalty.value_or(sampling.repeat_penalty);
  sampling.seed = args.seed;
  return sampling;
}

/// Writes the text as it comes (or collects it for --json). A model without tokenizer writes ids.
class TextWriter {
 public:
  TextWriter(const Model& model, const GenerateArgs& args) : json_(args.json), filter_(args.stops) {
    if (model.has_tokenizer()) {
      stream_ = model.Stream();
    } else if (!args.stops.empty()) {
      Fail(ErrorCode::kUsage,
           "--stop: this model has no tokenizer, so there is no text to stop at");
    }
  }

  void Push(int32_t token) {
    if (stream_) {
      Emit(filter_.Push(stream_->Push(token)));
    } else if (!json_) {
      Emit((any_ ? "," : "") + std::to_string(token));
    }
  }

  bool stopped() const { return filter_.stopped(); }

  /// The rest of the text; on standard output also the line break that ends it.
  std::string Finish() {
    if (stream_) {
      Emit(filter_.Push(stream_->Flush()));
      Emit(filter_.Flush());
    }
    if (!json_) {
      out_.Write("\n");
      out_.Flush();
    }
    return std::move(text_);
  }

 private:
  void Emit(const std::string& text) {
    if (text.empty()) return;
    any_ = true;
    if (json_) {
      text_ += text;
    } else {
      out_.Write(text);
      out_.Flush();
    }
  }

  bool json_;
  bool any_ = false;
  Output out_;
  StopFilter filter_;
  std::optional<TextStream> stream_;
  std::string text_;
};

Generated Decode(const Model& model, Session& session, const GenerateArgs& args,
                 const std::vector<int32_t>& prompt) {
  Generated result;
  const SamplingOptions sampling = Sampling(model, args);
  TextWriter writer(model, args);
  Stopwatch watch;
  result.prompt_fed = FeedPrompt(session, prompt);
  result.prompt_seconds = watch.Seconds();
  watch.Restart();
  while (!Interrupted() && static_cast<int64_t>(result.tokens.size()) < args.max_tokens) {
    const int32_t token = session.Sample(sampling);
    if (!args.ignore_eos && model.IsEndOfText(token)) {
      result.finish_reason = "stop";
      break;
    }
    result.tokens.push_back(token);
    writer.Push(token);
    if (writer.stopped()) {
      result.finish_reason = "stop";
      break;
    }
    const bool last = static_cast<int64_t>(result.tokens.size()) == args.max_tokens;
    if (last || session.position() >= session.context()) break;
    session.Feed({&token, 1});
    ++result.decode_steps;
  }
  result.decode_seconds = watch.Seconds();
  if (Interrupted()) result.finish_reason = "interrupted";
  result.text = writer.Finish();
  return result;
}

void PrintJson(const Model& model, const Session& session, const Generated& result, size_t prompt) {
  const SessionStats stats = session.stats();
  Output out;
  out.Line(JsonText()
               .Add("tokens", result.tokens)
               .Add("text", result.text)
               .Add("finish_reason", result.finish_reason)
               .Add("prompt_tokens", prompt)
               .Add("prompt_tps", result.PromptTps())
               .Add("decode_tps", result.DecodeTps())
               .Add("cache_bytes", stats.cache_bytes)
               .Add("peak_rss_bytes", PeakResidentBytes())
               .Add("attention", AttentionName(session.attention()))
               .Add("isa", model.isa())
               .Add("kernel", session.kernel())
               .Add("paths", PathsJson(stats.paths))
               .Text());
  out.Flush();
}

void PrintStatistics(const Model& model, const Session& session, const Generated& result,
                     size_t prompt, double load_seconds) {
  const SessionStats stats = session.stats();
  const bool whole = result.prompt_fed == static_cast<int64_t>(prompt);
  PrintError(fmt::format(
      "load {:.2f} s | prompt {} tokens, {:.1f} t/s | decode {} tokens, {:.1f} t/s "
      "| {}",
      load_seconds,
      whole ? fmt::format("{}", prompt) : fmt::format("{} of {}", result.prompt_fed, prompt),
      result.PromptTps(), result.tokens.size(), result.DecodeTps(), result.finish_reason));
  PrintError(fmt::format(
      "cache {} bytes ({} tokens) | attention={} isa={} kernel={} threads={} | paths={}",
      stats.cache_bytes, stats.cache_tokens, AttentionName(session.attention()), model.isa(),
      session.kernel(), model.threads(), FormatPaths(stats.paths)));
}

int RunGenerate(GenerateArgs& args) {
  for (const std::string& stop : args.stops) {
    if (stop.empty()) Fail(ErrorCode::kUsage, "--stop: expected some text, found an empty string");
    RequireUtf8(stop, "--stop");
  }
  const PromptInput input = ReadPrompt(args.prompt);
  ResolveEngineArgs(args.engine);
  Stopwatch watch;
  const Model model = Model::Load(args.engine.model, args.engine.load);
  const double load_seconds = watch.Seconds();
  const std::vector<int32_t> prompt = PromptTokens(model, input);
  CheckTokens(model, prompt);
  FitContext(model, static_cast<int64_t>(prompt.size()), args.max_tokens, args.engine.session);
  Session session(model, args.engine.session);
  CatchInterrupt();
  const Generated result = Decode(model, session, args, prompt);
  if (args.json) PrintJson(model, session, result, prompt.size());
  PrintStatistics(model, session, result, prompt.size(), load_seconds);
  return 0;
}

void AddSamplingOptions(Command command, GenerateArgs& args) {
  AddNumber(command, "--temperature", 0, 100, "0: greedy (default: generation_config.json, else 0)",
            [&args](double x) { args.temperature = x; });
  AddInteger(command, "--top-k", 0, int64_t{1} << 31,
             "Sample from the N most likely tokens; 0: off",
             [&args](int64_t n) { args.top_k = n; });
  command.AddText("--top-p", "X",
                  "Sample from the likeliest tokens that hold this probability; 1: off",
                  [&args](const std::string& text) {
                    args.top_p = ParseNumber(text, 0, 1, "--top-p", Lowest::kExcluded);
                  });
  AddNumber(command, "--min-p", 0, 1,
            "Drop tokens below this fraction of the likeliest one's probability; 0: off",
            [&args](double x) { args.min_p = x; });
  AddNumber(command, "--repeat-penalty", 0.01, 100, "Make the last 64 tokens less likely; 1: off",
            [&args](double x) { args.repeat_penalty = x; });
  AddInteger(command, "--seed", 0, INT64_MAX,
             "Of the random numbers (default: 0); the same seed gives the same text",
             [&args](int64_t n) { args.seed = static_cast<uint64_t>(n); });
}

}  // namespace

void AddGenerate(Command root) {
  auto args = std::make_shared<GenerateArgs>();
  Command command = root.AddSubcommand("generate", "Continue a text");
  AddEngineOptions(command, args->engine);
  AddTextOptions(command, args->prompt);
  AddTokensOption(command, args->prompt);
  AddInteger(command, "-n,--max-tokens", 0, int64_t{1} << 31, "Most new tokens (default: 256)",
             [args](int64_t n) { args->max_tokens = n; });
  AddSamplingOptions(command, *args);
  command.AddRepeated("--stop", "TEXT", "Stop before this text; may be given several times",
                      args->stops);
  command.AddFlag("--ignore-eos", "Do not stop at the end-of-text token",
                  [args] { args->ignore_eos = true; });
  AddJsonFlag(command, "Print one JSON object at the end instead of the text", args->json);
  command.SetFooter(
      "The text goes to standard output as it is made, statistics to standard error at the end.\n"
      "Without a usable tokenizer in the model's directory, --tokens is the only prompt and the "
      "ids\n"
      "of the new tokens are printed, separated by commas.\n"
      "Ctrl-C ends the text early, with the statistics and exit status 0; a second one ends the\n"
      "program at once with status 130.\n"
      "\n"
      "Examples:\n"
      "  mla generate -m models/stories-mla -p 'Once upon a time'\n"
      "  mla generate -m models/stories-mla -f story.txt --temperature 0.8 --top-p 0.95 --seed 7\n"
      "  mla generate -m models/stories-mla --tokens 0,2986,638 --attention split-kv --json\n");
  command.SetAction([args] { return RunGenerate(*args); });
}

}  // namespace mla
