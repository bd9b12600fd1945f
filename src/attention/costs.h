// What the forms of attention are expected to cost, and which of them a step should take.
// Called by: attention, engine (bench crossover). Thread-safety: stateless.
#ifndef MLA_ATTENTION_COSTS_H_
#define MLA_ATTENTION_COSTS_H_

#include <cstdint>

#include "attention/geometry.h"
#include "attention/split_plan.h"
#include "kernels/latent.h"

namespace mla {

/// Costs per head and thread, in any one unit. The constructor's are multiply-adds on paper.
struct AttentionCosts {
  AttentionCosts() = default;
  explicit AttentionCosts(const MlaGeometry& geometry);

  double absorbed_pair = 0;         ///< absorbed: one query row and one key
  double absorbed_row = 0;          ///< absorbed: projecting one query row and its output
  double up_key = 0;                ///< up-projecting one key
  double up_pair = 0;               ///< attending to an up-projected key with one query row
  bool blocks_for_threads = false;  ///< up-projection cuts rows as PrefillBlockRows does
  SplitCosts split{};
};

/// What the choices go by: multiply-adds on paper, each kind times how much longer than one of an
/// fp32 matrix product it takes in the kernels that serve `format`, and `prefill` for up-projection
/// (PrefillUnit). These factors belong
/// to a family of kernels, not to a machine or a moment, so that the same settings take the same
/// paths in every process (docs/decisions/0008); `mla bench crossover` measures them.
AttentionCosts ExpectedCosts(const MlaGeometry& geometry, const LatentFormat& format,
                             DotUnit prefill);

/// Most query rows of a multi-row step that run absorbed in the forced modes: below
/// Rk(n+v)/(2Rk-n-v) rows the absorbed form does less arithmetic than up-projecting the window
/// (docs/mla.md section 6); capped, since its buffers hold H(2Rk+r) floats per row. Longer steps
/// that run absorbed all the same do so in blocks.
int64_t AbsorbedRowLimit(const MlaGeometry& geometry);

/// Whether `rows` query rows, the last of which sees `window` keys, are expected to be faster
/// absorbed than up-projected.
bool PreferAbsorbed(const MlaGeometry& geometry, const AttentionCosts& costs, int threads,
                    int64_t rows, int64_t window);

}  // namespace mla

#endif  // MLA_ATTENTION_COSTS_H_
