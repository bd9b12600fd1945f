// The oracle of attention: the decompressed form, one loop after another, all in double.
// Called by: tests of attention and layers. Thread-safety: pure functions.
// Shares no code with the library, so that no error of one path can hide in the other.
#ifndef MLA_TESTS_SUPPORT_ORACLE_H_
#define MLA_TESTS_SUPPORT_ORACLE_H_

#include <cstdint>
#include <vector>

#include "attention/geometry.h"
#include "kernels/elem.h"

namespace mla {

/// Per-head keys and values of a window, in double.
struct OracleKv {
  std::vector<double> k;  // [S, H, n + r]
  std::vector<double> v;  // [S, H, v]
};

/// k = (w_uk c_kv, k_rope), v = w_uv c_kv. kv_b [H(n+v), Rk]; latent [S, Rk + r].
OracleKv OracleUpProject(const MlaGeometry& g, const std::vector<float>& kv_b,
                         const std::vector<float>& latent);

/// The type of the rotated elements of a cache of this type: fp16 beside bf16 and int8.
constexpr Elem OracleRopeType(Elem type) {
  return type == Elem::kBf16 || type == Elem::kInt8 ? Elem::kF16 : type;
}

/// Every element as a cache of this type holds it: of keys and values (not int8), of latent rows
/// (int8: 127 steps to the largest magnitude of the row's c_kv).
void OracleRound(const MlaGeometry& g, Elem type, OracleKv& kv);
void OracleRound(const MlaGeometry& g, Elem type, std::vector<float>& latent);

struct OracleResult {
  std::vector<double> out;   // [rows, H, v]
  std::vector<double> lse2;  // [rows, H], log2 units
};

/// q [rows, H, n + r], scaled. Row i sees keys [0, first + i]; all of them if not `causal`.
OracleResult OracleAttention(const MlaGeometry& g, const OracleKv& kv, const std::vector<float>& q,
                             int64_t first, bool causal = true);

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_ORACLE_H_
