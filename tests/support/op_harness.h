// Threads, kernels and scratch for tests of ops, attention and layers.
// Called by: tests of these rooms. Thread-safety: one region at a time.
#ifndef MLA_TESTS_SUPPORT_OP_HARNESS_H_
#define MLA_TESTS_SUPPORT_OP_HARNESS_H_

#include "ops/context.h"
#include "ops/linear.h"
#include "support/stored_matrix.h"
#include "tensor/weight_view.h"

namespace mla {

class OpHarness {
 public:
  explicit OpHarness(int threads = 2, int64_t scratch_floats = 0,
                     const KernelTable& kernels = FastKernels(), const LatentUnits& units = {})
      : pool_(threads), scratch_(threads), context{pool_, kernels, scratch_, units} {
    scratch_.Reserve(scratch_floats);
  }

 private:
  ThreadPool pool_;
  ThreadScratch scratch_;

 public:
  OpContext context;
};

inline DType DTypeOf(Elem type) {
  return type == Elem::kF32 ? DType::kF32 : type == Elem::kF16 ? DType::kF16 : DType::kBf16;
}

inline WeightView ViewOf(const StoredMatrix& m) {
  return {m.data(), m.rows(), m.cols(), m.stride(), DTypeOf(m.type())};
}

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_OP_HARNESS_H_
