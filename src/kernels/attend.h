// One tile of attention with an online softmax: the inner kernel of every path. Decompressed
// attention passes K and V of one head; absorbed attention passes latent rows as both, with the
// query heads (and query rows) as m.
// Called by: attention/*, once per tile. Thread-safety: pure functions on their arguments.
#ifndef MLA_KERNELS_ATTEND_H_
#define MLA_KERNELS_ATTEND_H_

#include "kernels/elem.h"

namespace mla {

/// log2(e). Partial softmax states carry their log-sum-exp in log2 units; this is the only place
/// where the unit changes.
inline constexpr float kLog2E = 1.44269504088896340736f;

/// Most key rows of one AttendTile call.
inline constexpr int64_t kAttendTileRows = 64;

/// Folds t keys into the running state (max, sum, acc) of m query rows:
///   s = q·[k | k_rope], new_max = max(max, s), p = exp(s - new_max), sum and acc rescaled, acc +=
///   p·v.
/// The order of a score's sum depends on the widths, the ISA and whether m is large; other rows of
/// the call change nothing else about a row.
/// State starts as max = -inf, sum = 0, acc = 0. Strides are in elements. Rows at or beyond the
/// largest `visible` are never read.
struct AttendTileArgs {
  const float* q = nullptr;  ///< [m, dk + dr], already multiplied by the softmax scale
  int64_t q_stride = 0;
  const void* k = nullptr;  ///< [t, dk]
  int64_t k_stride = 0;
  const void* v = nullptr;  ///< [t, dv]; may alias k
  int64_t v_stride = 0;
  Elem type = Elem::kF32;        ///< of k and v
  const void* k_rope = nullptr;  ///< [t, dr]: the rest of each key, if dr > 0
  int64_t k_rope_stride = 0;
  Elem rope_type = Elem::kF32;
  int64_t dr = 0;
  int64_t m = 0, t = 0, dk = 0, dv = 0;  ///< t <= kAttendTileRows
  const int32_t* visible =
      nullptr;           ///< [m]: rows [0, visible[i]) exist for query row i; null: all t
  float* max = nullptr;  ///< [m], natural-log units
  float* sum = nullptr;  ///< [m]
  float* acc = nullptr;  ///< [m, dv]
  int64_t acc_stride = 0;
  float* scratch = nullptr;  ///< m · kAttendTileRows floats
  /// Bytes that the next tile will read: fetched towards the cache during the scores. Never
  /// dereferenced; may be null.
  const void* prefetch = nullptr;
  int64_t prefetch_bytes = 0;
};
void AttendTile(const AttendTileArgs& args) noexcept;

/// Ends a run of tiles: out = acc / sum and lse = log2(sum) + max·log2(e). A row that saw no key
/// gives zeros and -inf.
struct AttendFinishArgs {
  const float* max = nullptr;  ///< [m]
  const float* sum = nullptr;  ///< [m]
  const float* acc = nullptr;  ///< [m, dv]
  int64_t acc_stride = 0;
  float* out = nullptr;  ///< [m, dv]; may be acc itself
  int64_t out_stride = 0;
  float* lse = nullptr;  ///< [m] log2 units, or null
  int64_t m = 0, dv = 0;
};
void AttendFinish(const AttendFinishArgs& args) noexcept;

/// Merges partial softmax states (docs/mla.md section 7). Partials of output i are
/// indptr[i] .. indptr[i+1]; each v_in row is already divided by its own denominator, lse_in is in
/// log2 units. out = sum_i 2^(lse_i - m) v_i / sum_i 2^(lse_i - m), lse = m + log2(sum).
/// A partial with lse -inf or NaN contributes nothing; none left gives zeros and -inf.
struct MergeArgs {
  const float* v_in = nullptr;      ///< [N, heads, dim]
  const float* lse_in = nullptr;    ///< [N, heads]
  const int32_t* indptr = nullptr;  ///< [count + 1]
  float* v_out = nullptr;           ///< [count, heads, dim]
  float* lse_out = nullptr;         ///< [count, heads], or null
  int64_t heads = 0, dim = 0;
  int64_t output = 0;  ///< which of the count outputs
  int64_t head = 0;    ///< which head
};
/// One (output, head).
void MergeStates(const MergeArgs& args) noexcept;

namespace reference {
void AttendTile(const AttendTileArgs& args) noexcept;
void AttendFinish(const AttendFinishArgs& args) noexcept;
void MergeStates(const MergeArgs& args) noexcept;
}  // namespace reference

}  // namespace mla

#endif  // MLA_KERNELS_ATTEND_H_
