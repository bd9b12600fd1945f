// The kernels of one family as a table: what the layers above call.
// Called by: ops (through its context). Thread-safety: immutable.
#ifndef MLA_KERNELS_KERNEL_TABLE_H_
#define MLA_KERNELS_KERNEL_TABLE_H_

#include "kernels/attend.h"
#include "kernels/elementwise.h"
#include "kernels/latent.h"
#include "kernels/matmul.h"
#include "kernels/prefill.h"

namespace mla {

struct KernelTable {
  const char* name;
  decltype(&MatmulNt) matmul_nt;
  decltype(&MatmulNn) matmul_nn;
  decltype(&AttendTile) attend_tile;
  decltype(&AttendFinish) attend_finish;
  decltype(&LatentBegin) latent_begin;
  decltype(&LatentTile) latent_tile;
  decltype(&LatentFinish) latent_finish;
  decltype(&PrefillTakes) prefill_takes;
  decltype(&PrefillBegin) prefill_begin;  // these three only where it takes the shape
  decltype(&PrefillTile) prefill_tile;
  decltype(&PrefillFinish) prefill_finish;
  decltype(&MergeStates) merge_states;
  decltype(&RmsNorm) rms_norm;
  decltype(&RotatePairs) rotate_pairs;
  decltype(&SwiGlu) swiglu;
  decltype(&Axpy) axpy;
  decltype(&Softmax) softmax;
  decltype(&AllFinite) all_finite;
  decltype(&ToFloat) to_float;
  decltype(&FromFloat) from_float;
};

/// Highway kernels; each call runs the ISA that kernels/isa.h chose.
const KernelTable& FastKernels() noexcept;
/// Plain loops that accumulate in double: the oracle of the tests and `--kernels reference`.
const KernelTable& ReferenceKernels() noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_KERNEL_TABLE_H_
