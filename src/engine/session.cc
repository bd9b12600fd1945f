#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"
#include "engine/model_impl.h"
#include "engine/sampler.h"
#include "kernels/latent_unit.h"

namespace mla {

class SessionImpl {
 public:
  SessionImpl(std::shared_ptr<ModelImpl> m, const SessionOptions& options)
      : model(std::move(m)),
        resolved(ResolveToFit(*model, options)),
        cache(model->config.attention, model->config.num_layers, resolved.layout, resolved.type,
              resolved.context),
        forward(model->config, *model->weights, model->folds, resolved.layout, resolved.chunk, 1),
        logits(model->config.vocab_size) {
    std::lock_guard<std::mutex> lock(model->mutex);
    model->scratch.Reserve(
        ForwardScratchFloats(model->config, resolved.layout, resolved.type, model->units));
  }

  // One forward pass over at most resolved.chunk tokens. Leaves the cache as it was if it fails or
  // is stopped (false).
  bool Step(std::span<const int32_t> tokens, const std::function<bool()>& keep_going) {
    const int64_t rows = static_cast<int64_t>(tokens.size());
    const AttentionItem item{&cache, 0, rows, cache.offset()};
    cache.Extend(rows);
    has_logits = false;
    bool finished = false;
    try {
      OpContext context = model->Context();
      finished =
          forward.Run(context, tokens, std::span(&item, 1), resolved.policy, &stats, keep_going);
    } catch (...) {
      cache.Trim(rows);
      throw;
    }
    if (finished) {
      history.insert(history.end(), tokens.begin(), tokens.end());
    } else {
      cache.Trim(rows);
    }
    return finished;
  }

  void LastLogits(int64_t row) {
    OpContext context = model->Context();
    forward.Logits(context, row, 1, logits.data());
    has_logits = true;
  }

  void Check(std::span<const int32_t> tokens) const {
    if (tokens.empty()) {
      Fail(ErrorCode::kBadInput, "there are no tokens to feed; expected one or more");
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= model->config.vocab_size) {
        Fail(ErrorCode::kBadInput, "token {} is id {}; expected 0 to {}, the model's vocabulary", i,
             tokens[i], model->config.vocab_size - 1);
      }
    }
    const int64_t room = cache.capacity() - cache.live();
    if (static_cast<int64_t>(tokens.size()) > room) {
      Fail(
          ErrorCode::kContextFull,
          "{} tokens do not fit: the context is {} tokens and {} are in use; use a larger --ctx or "
          "fewer tokens",
          tokens.size(), cache.capacity(), cache.live());
    }
  }

  // Runs `tokens` chunk by chunk; after(rows of the chunk) takes the logits while they are there.
  template <typename After>
  int64_t FeedChunks(std::span<const int32_t> tokens, const Session::Progress& progress,
                     After after) {
    Check(tokens);
    std::lock_guard<std::mutex> lock(model->mutex);
    const int64_t total = static_cast<int64_t>(tokens.size());
    int64_t done = 0;
    std::function<bool()> keep_going;
    if (progress) keep_going = [&] { return progress(done, total); };
    while (done < total) {
      const int64_t rows = std::min(resolved.chunk, total - done);
      if (!Step(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(rows)), keep_going)) {
        break;
      }
      done += rows;
      const bool stop = progress && !progress(done, total);
      after(rows, stop || done == total);
      if (stop) break;
    }
    return done;
  }

  void ReportLoad() const;

  std::shared_ptr<ModelImpl> model;
  ResolvedSession resolved;
  KvCache cache;
  Forward forward;
  FloatBuffer logits;
  bool has_logits = false;
  std::vector<int32_t> history;  // tokens fed, for the repeat penalty
  PathStats stats;
};

// The load line (docs/mla.md section 5): only with absorbed attention, whatever the log level.
void SessionImpl::ReportLoad() const {
  if (resolved.attention == Attention::kDecompressed) return;
  const ModelInfo& info = model->info;
  const int64_t before = DecompressedBytesPerToken(model->config.attention, resolved.type);
  const int64_t after = LatentBytesPerToken(model->config.attention, resolved.type);
  const char* split = resolved.policy.mode == DecodeMode::kSplitKv ? "on"
                      : resolved.policy.mode == DecodeMode::kAuto  ? "auto"
                                                                   : "off";
  model->Log(
      LogLevel::kNotice,
      fmt::format("mla: absorbed attention: {}/{} layers folded; {} -> {} cache bytes per "
                  "token and layer ({:.1f}x); split-kv {}; fold {}, {} bytes extra",
                  info.fold_layers, info.layers, before, after,
                  static_cast<double>(before) / static_cast<double>(after), split,
                  info.fold_format.empty() ? "none" : info.fold_format, info.fold_extra_bytes));
  if (info.fold_layers != info.layers) {
    model->Log(LogLevel::kNotice, fmt::format("mla: running decompressed: {}", info.fold_decline));
  }
}

Session::Session(const Model& model, const SessionOptions& options)
    : impl_(std::make_unique<SessionImpl>(model.impl_, options)) {
  impl_->ReportLoad();
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

int64_t Session::Feed(std::span<const int32_t> tokens, const Progress& progress) {
  return impl_->FeedChunks(tokens, progress, [&](int64_t rows, bool last) {
    if (last) impl_->LastLogits(rows - 1);
  });
}

int64_t Session::FeedForLogits(std::span<const int32_t> tokens,
                               const std::function<void(int64_t, std::span<const float>)>& on_row,
                               const Progress& progress) {
  constexpr int64_t kRows = 16;  // bounds the buffer, whatever the chunk
  SessionImpl& s = *impl_;
  const int64_t vocab = s.model->config.vocab_size;
  const FloatBuffer block(std::min(kRows, s.resolved.chunk) * vocab);
  return s.FeedChunks(tokens, progress, [&](int64_t rows, bool) {
    const int64_t position = s.cache.offset() - rows;
    OpContext context = s.model->Context();
    for (int64_t i = 0; i < rows; i += kRows) {
      const int64_t count = std::min(kRows, rows - i);
      s.forward.Logits(context, i, count, block.data());
      for (int64_t j = 0; j < count; ++j) {
        on_row(position + i + j,
               std::span<const float>(block.data() + j * vocab, static_cast<size_t>(vocab)));
      }
      const float* last = block.data() + (count - 1) * vocab;
      std::copy(last, last + vocab, s.logits.data());
    }
    s.has_logits = true;
  });
}

std::span<const float> Session::logits() const {
  if (!impl_->has_logits) return {};
  return {impl_->logits.data(), static_cast<size_t>(impl_->model->config.vocab_size)};
}

int32_t Session::Sample(const SamplingOptions& options) {
  if (!impl_->has_logits) {
    Fail(ErrorCode::kUsage, "nothing to sample from: feed tokens first (again after Trim)");
  }
  return SampleToken(logits(), impl_->history, impl_->cache.offset(), options);
}

int64_t Session::position() const { return impl_->cache.offset(); }
int64_t Session::context() const { return impl_->cache.capacity(); }
Attention Session::attention() const { return impl_->resolved.attention; }

std::string Session::kernel() const {
  if (impl_->model->options.kernels == KernelSet::kReference) return "reference";
  const bool latent = impl_->resolved.layout == CacheLayout::kLatent;
  return latent ? LatentKernelName(impl_->cache.latent_format(impl_->model->units))
                : DotUnitName(DotUnit::kFma);
}

int64_t Session::Trim(int64_t count) {
  const int64_t dropped = impl_->cache.Trim(count);
  impl_->history.resize(impl_->history.size() - static_cast<size_t>(dropped));
  if (dropped > 0) impl_->has_logits = false;
  return dropped;
}

int64_t Session::TrimFront(int64_t count) { return impl_->cache.TrimFront(count); }

void Session::Reset() {
  impl_->cache.Reset();
  impl_->history.clear();
  impl_->has_logits = false;
}

SessionStats Session::stats() const {
  const SessionImpl& s = *impl_;
  SessionStats stats;
  stats.paths = {s.stats[AttentionPath::kDecompressed], s.stats[AttentionPath::kAbsorbedPrefill],
                 s.stats[AttentionPath::kAbsorbedComposed],
                 s.stats[AttentionPath::kAbsorbedSplitKv]};
  stats.position = s.cache.offset();
  stats.cache_tokens = s.cache.live();
  stats.cache_bytes = s.cache.nbytes();
  stats.scratch_bytes =
      PlanMemory(*s.model, s.resolved, s.forward.bytes() + 4 * s.logits.size()).scratch_bytes;
  return stats;
}

void Session::ResetStats() { impl_->stats.Reset(); }

std::string FormatPaths(const PathCounts& p) {
  const int64_t counts[] = {p.decompressed, p.absorbed_prefill, p.absorbed_composed,
                            p.absorbed_split_kv};
  std::string text;
  for (size_t i = 0; i < kAttentionPathNames.size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", kAttentionPathNames[i], counts[i]);
  }
  return text;
}

}  // namespace mla
