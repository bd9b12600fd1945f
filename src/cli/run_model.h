// What the commands that run a model have in common: contexts that fit, progress, time.
// Called by: generate, logits, perplexity. Thread-safety: one thread at a time.
#ifndef MLA_CLI_RUN_MODEL_H_
#define MLA_CLI_RUN_MODEL_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "cli/options.h"
#include "mla/engine.h"

namespace mla {

class Stopwatch {
 public:
  double Seconds() const;
  void Restart();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// count / seconds; 0 if nothing was counted or no time passed.
double Rate(int64_t count, double seconds);

/// Without --ctx: as many tokens as `prompt` + `extra` need, at most the trained length. Throws
/// kUsage naming both numbers if the prompt does not fit into the context.
void FitContext(const Model& model, int64_t prompt, int64_t extra, SessionOptions& options);

/// Throws kBadInput for an id outside of the model's vocabulary.
void CheckTokens(const Model& model, const std::vector<int32_t>& tokens);

/// Feeds the prompt; shows progress on a terminal, stops within a layer after Ctrl-C. Returns the
/// number of tokens fed.
int64_t FeedPrompt(Session& session, const std::vector<int32_t>& tokens);

}  // namespace mla

#endif  // MLA_CLI_RUN_MODEL_H_
