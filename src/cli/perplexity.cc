#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/core.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/run_model.h"
#include "cli/windows.h"
#include "mla/engine.h"
#include "mla/tools.h"

namespace mla {
namespace {

struct PerplexityArgs {
  EngineArgs engine;
  PromptArgs prompt;
  bool json = false;
};

/// -log softmax(logits)[target], nats.
double NegativeLogLikelihood(std::span<const float> logits, int32_t target) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - max);
  return max + std::log(sum) - logits[static_cast<size_t>(target)];
}

/// Sum of the negative log likelihoods of the window's tokens but the first.
double WindowNll(Session& session, std::span<const int32_t> window) {
  double total = 0;
  size_t row = 0;
  session.Reset();
  session.FeedForLogits(window.first(window.size() - 1),
                        [&](int64_t /*position*/, std::span<const float> logits) {
                          const int32_t target = window[++row];
                          if (target < 0 || static_cast<size_t>(target) >= logits.size()) {
                            Fail(ErrorCode::kBadInput,
                                 "token id {} of the text is outside of the model's vocabulary of "
                                 "{}: the tokenizer belongs to another model",
                                 target, logits.size());
                          }
                          total += NegativeLogLikelihood(logits, target);
                        });
  return total;
}

/// The engine's own message proposes token ids, which this command does not take.
void RequireTokenizer(const Model& model, const std::string& directory) {
  if (model.has_tokenizer()) return;
  std::string reason;
  try {
    TextCodec::Load(directory);
  } catch (const Error& error) {
    reason = error.what();
  }
  Fail(ErrorCode::kBadInput, "perplexity measures text, which needs the model's tokenizer: {}",
       reason);
}

int RunPerplexity(PerplexityArgs& args) {
  const std::string text = PromptText(args.prompt);
  ResolveEngineArgs(args.engine);
  const Model model = Model::Load(args.engine.model, args.engine.load);
  RequireTokenizer(model, args.engine.model);
  const std::vector<int32_t> tokens = model.Encode(text);
  const int64_t count = static_cast<int64_t>(tokens.size());
  if (args.engine.session.context == 0) {
    args.engine.session.context = std::max<int64_t>(2, std::min(count, model.info().max_positions));
  }
  const std::vector<std::vector<int32_t>> windows =
      PerplexityWindows(tokens, model.bos(), args.engine.session.context);
  Session session(model, args.engine.session);
  Stopwatch watch;
  double total = 0;
  int64_t predicted = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    total += WindowNll(session, windows[i]);
    predicted += static_cast<int64_t>(windows[i].size()) - 1;
    if (StderrIsTerminal() && windows.size() > 1) {
      PrintError(fmt::format("window {}/{}: {:.4f} nats per token so far", i + 1, windows.size(),
                             total / static_cast<double>(predicted)));
    }
  }
  const double nll = total / static_cast<double>(predicted);
  Output out;
  if (args.json) {
    out.Line(JsonText()
                 .Add("nll", nll)
                 .Add("perplexity", std::exp(nll))
                 .Add("tokens", predicted)
                 .Text());
  } else {
    out.Line(fmt::format("perplexity {:.4f} | {:.6f} nats per token | {} tokens predicted",
                         std::exp(nll), nll, predicted));
  }
  out.Flush();
  PrintError(
      fmt::format("{} windows of at most {} tokens | {:.1f} t/s | attention={} isa={} "
                  "kernel={} threads={} | paths={}",
                  windows.size(), args.engine.session.context, Rate(predicted, watch.Seconds()),
                  AttentionName(session.attention()), model.isa(), session.kernel(),
                  model.threads(), FormatPaths(session.stats().paths)));
  return 0;
}

}  // namespace

void AddPerplexity(Command root) {
  auto args = std::make_shared<PerplexityArgs>();
  Command command = root.AddSubcommand("perplexity", "How well the model predicts a text");
  AddEngineOptions(command, args->engine);
  AddTextOptions(command, args->prompt);
  AddJsonFlag(command, "Print {\"nll\":,\"perplexity\":,\"tokens\":}", args->json);
  command.SetFooter(
      "nll is the mean negative log likelihood in nats over all predicted tokens, perplexity its\n"
      "exponential. A text longer than --ctx (default: the trained length) is cut into "
      "consecutive\n"
      "windows of --ctx tokens. Each begins with the BOS token if the text's ids do; otherwise it\n"
      "begins with the last token of the window before, so that every token but the first of the\n"
      "text is predicted exactly once.\n"
      "\n"
      "Examples:\n"
      "  mla perplexity -m models/stories-mla -f story.txt\n"
      "  mla perplexity -m models/stories-mla -f story.txt --ctx 512 --attention absorbed "
      "--json\n");
  command.SetAction([args] { return RunPerplexity(*args); });
}

}  // namespace mla
