// What is behind mla::Model.
// Called by: engine only. Thread-safety: immutable after Load except the threads and their scratch,
// which `mutex` guards.
#ifndef MLA_ENGINE_MODEL_IMPL_H_
#define MLA_ENGINE_MODEL_IMPL_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mla/engine.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/weights.h"
#include "ops/context.h"
#include "parallel/thread_pool.h"
#include "tokenizer/tokenizer.h"

namespace mla {

class ModelImpl {
 public:
  ModelImpl(const std::string& directory, const LoadOptions& options);

  /// Layout and decode mode of a setting; decompressed if some layer cannot be folded.
  CacheLayout LayoutOf(Attention attention) const;
  OpContext Context() { return {pool, *kernels, scratch, units}; }
  void Log(LogLevel level, const std::string& line) const {
    if (options.log) options.log(level, line);
  }
  const Tokenizer& RequireTokenizer() const;

  LoadOptions options;
  std::string directory;
  ModelConfig config;
  GenerationDefaults defaults;
  std::shared_ptr<const ModelWeights> weights;
  std::vector<LayerFold> folds;
  ModelInfo info;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: none
  std::string tokenizer_fault;                 // why
  std::vector<int32_t> eos_ids;

  const KernelTable* kernels;
  ThreadPool pool;
  ThreadScratch scratch;
  LatentUnits units;
  std::mutex mutex;  // one forward pass at a time
};

/// Session options with every default filled in and checked against the model. Throws kUsage.
struct ResolvedSession {
  Attention attention = Attention::kDecompressed;
  CacheLayout layout = CacheLayout::kDecompressed;
  AttentionPolicy policy;
  Elem type = Elem::kBf16;
  int64_t context = 0;
  int64_t chunk = 0;
};
ResolvedSession Resolve(const ModelImpl& model, const SessionOptions& options);

/// Resolve, and checks the cache and the activations against the memory that is available: a
/// context that was asked for throws kResource saying what would fit, a default one shrinks to it.
ResolvedSession ResolveToFit(const ModelImpl& model, const SessionOptions& options);

/// Sizes of a session, from a forward pass's own buffers.
MemoryPlan PlanMemory(const ModelImpl& model, const ResolvedSession& session,
                      int64_t activation_bytes);

}  // namespace mla

#endif  // MLA_ENGINE_MODEL_IMPL_H_
