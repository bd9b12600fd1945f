// What every op needs to run: threads, kernels, per-thread scratch.
// Called by: ops, attention, layers, model. Thread-safety: one region at a time.
#ifndef MLA_OPS_CONTEXT_H_
#define MLA_OPS_CONTEXT_H_

#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/latent_unit.h"
#include "parallel/thread_pool.h"
#include "tensor/buffer.h"

namespace mla {

/// Memory that a task may use while it runs. Grows only in Reserve, so that no op allocates.
class ThreadScratch {
 public:
  explicit ThreadScratch(int threads) : floats_(static_cast<size_t>(threads)) {}

  /// Makes at least `count` floats available to each thread. Not while a region runs.
  void Reserve(int64_t count) {
    for (FloatBuffer& f : floats_) {
      if (f.size() < count) f = FloatBuffer(count);
    }
  }
  float* Get(int thread) const { return floats_[static_cast<size_t>(thread)].data(); }
  int64_t size() const { return floats_.empty() ? 0 : floats_[0].size(); }
  int64_t bytes() const { return size() * 4 * static_cast<int64_t>(floats_.size()); }

 private:
  std::vector<FloatBuffer> floats_;
};

struct OpContext {
  ThreadPool& pool;
  const KernelTable& kernels;
  ThreadScratch& scratch;
  LatentUnits units{};
};

}  // namespace mla

#endif  // MLA_OPS_CONTEXT_H_
