// Merging of partial softmax states: checks the sizes, then one region over (output, head).
// Called by: attention, tests; ranks of a distributed run will. Thread-safety: one call per pool.
#ifndef MLA_ATTENTION_MERGE_H_
#define MLA_ATTENTION_MERGE_H_

#include <cstdint>
#include <span>

#include "ops/context.h"

namespace mla {

/// v_in [N, heads, dim], each row divided by its own denominator; lse_in [N, heads] in **log2**
/// units; indptr [M + 1] ascending from 0 to N. Gives v_out [M, heads, dim] and lse_out [M, heads]
/// (log2 again, so merges chain; may be empty). Formula: kernels/attend.h.
/// Throws kUsage if a size disagrees, instead of reading past an end.
void MergePartials(OpContext& context, std::span<const float> v_in, std::span<const float> lse_in,
                   std::span<const int32_t> indptr, int64_t heads, int64_t dim,
                   std::span<float> v_out, std::span<float> lse_out);

}  // namespace mla

#endif  // MLA_ATTENTION_MERGE_H_
