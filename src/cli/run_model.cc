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

int64_t FeedPrompt(Session& session, const std::vector<int32_t>& tokens) {
  const bool terminal = StderrIsTerminal();
  int64_t shown = 0;
  const int64_t fed = session.Feed(tokens, [&](int64_t done, int64_t total) {
    if (terminal && done > shown && done < total) {
      std::fprintf(stderr, "\rprompt %lld/%lld tokens", static_cast<long long>(done),
                   static_cast<long long>(total));
      std::fflush(stderr);
      shown = done;
    }
    return !Interrupted();
  });
  if (shown > 0) {
    std::fprintf(stderr, "\r\033[K");
    std::fflush(stderr);
  }
  return fed;
}

}  // namespace mla
