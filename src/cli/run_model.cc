#include "cli/run_model.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"
#include "cli/output.h"

namespace mla {

double Stopwatch::Seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Stopwatch::Restart() { start_ = Clock::now(); }

double Rate(int64_t count, double seconds) {
  return count > 0 && seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

void FitContext(const Model& model, int64_t prompt, int64_t extra, SessionOptions& options) {
  const int64_t trained = model.info().max_positions;
  const int64_t limit = options.context > 0 ? options.context : trained;
  if (prompt > limit) {
    Fail(ErrorCode::kUsage, "the prompt has {} tokens, the context holds {} ({}); {}", prompt,
         limit, options.context > 0 ? "--ctx" : "the model's trained length",
         options.context > 0 && options.context < trained ? "shorten it or raise --ctx"
                                                          : "shorten it");
  }
  if (options.context == 0) options.context = std::min(trained, prompt + extra);
}

void CheckTokens(const Model& model, const std::vector<int32_t>& tokens) {
  const int64_t vocab = model.info().vocab;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab) {
      Fail(ErrorCode::kBadInput, "token {} is id {}; expected 0 to {}, the model's vocabulary", i,
           tokens[i], vocab - 1);
    }
  }
}

namespace {

constexpr double kPieceSeconds = 0.5;
// Fewer tokens per pass read the weights too often to be worth it.
constexpr int64_t kLeastPiece = 64;

/// A guess for the first pass, before anything was measured: multiply-adds with every expert that a
/// token does not use left out, over a speed that any machine reaches.
double GuessSecondsPerToken(const Model& model) {
  const ModelInfo& info = model.info();
  double parameters = 0;
  for (const NamedBytes& kind : info.kinds) {
    const bool routed = kind.kind == "routed_experts" && info.experts > 0;
    const double share =
        routed ? static_cast<double>(info.experts_per_token) / static_cast<double>(info.experts)
               : 1;
    if (kind.kind != "embedding") parameters += share * static_cast<double>(kind.parameters);
  }
  const bool slow = model.isa() == "reference" || model.isa() == "scalar";
  const double flops = slow ? 0.5e9 : 8e9;  // per second and thread
  return 2 * parameters / (flops * model.threads());
}

}  // namespace

Pacer::Pacer(const Model& model, const EngineArgs& args)
    : chunk_(args.session.prefill_chunk),
      exact_(args.exact_chunk),
      seconds_per_token_(GuessSecondsPerToken(model)) {}

int64_t Pacer::Next(int64_t left) const {
  int64_t piece = chunk_;
  while (!exact_ && piece / 2 >= kLeastPiece &&
         static_cast<double>(std::min(piece, left)) * seconds_per_token_ > kPieceSeconds) {
    piece /= 2;
  }
  return std::min(piece, left);
}

void Pacer::Took(int64_t tokens, double seconds) {
  // A pass of a few tokens says little: most of its time goes into reading the weights.
  if (tokens >= kLeastPiece) seconds_per_token_ = seconds / static_cast<double>(tokens);
}

int64_t FeedPrompt(Session& session, Pacer pacer, const std::vector<int32_t>& tokens) {
  const int64_t total = static_cast<int64_t>(tokens.size());
  if (total > session.context()) {
    Fail(ErrorCode::kContextFull, "the prompt has {} tokens, the context holds {}", total,
         session.context());
  }
  const bool terminal = StderrIsTerminal();
  int64_t done = 0;
  bool shown = false;
  while (done < total && !Interrupted()) {
    const int64_t count = pacer.Next(total - done);
    Stopwatch watch;
    session.Feed({tokens.data() + done, static_cast<size_t>(count)});
    pacer.Took(count, watch.Seconds());
    done += count;
    if (terminal && done < total) {
      std::fprintf(stderr, "\rprompt %lld/%lld tokens", static_cast<long long>(done),
                   static_cast<long long>(total));
      std::fflush(stderr);
      shown = true;
    }
  }
  if (shown) {
    std::fprintf(stderr, "\r\033[K");
    std::fflush(stderr);
  }
  return done;
}

}  // namespace mla
