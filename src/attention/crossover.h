// What the forms of attention cost on the machine at hand, measured within some ten milliseconds.
// Called by: engine (bench crossover). Thread-safety: one pool runs one region at a time.
#ifndef MLA_ATTENTION_CROSSOVER_H_
#define MLA_ATTENTION_CROSSOVER_H_

#include "attention/attention.h"

namespace mla {

/// Nanoseconds per head and thread, measured anew on synthetic rows of a latent cache of this type
/// (see kernels/elem.h): the absorbed kernel on a full task, its begin and end, the merge, and the
/// up-projected form at two numbers of query rows. The pool must be idle; scratch of
/// AttentionScratchFloats(geometry, kLatent, type, units) must be reserved.
AttentionCosts MeasureCosts(OpContext& context, const MlaGeometry& geometry, Elem type);

}  // namespace mla

#endif  // MLA_ATTENTION_CROSSOVER_H_
