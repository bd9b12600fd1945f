// Rotary position embedding: frequencies (plain and YaRN) and cos/sin of a batch of positions.
// Called by: model (config fills RopeConfig, forward makes the rows), layers.
// Thread-safety: a built table is immutable.
#ifndef MLA_OPS_ROPE_TABLE_H_
#define MLA_OPS_ROPE_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace mla {

/// Which elements of the rotated r are a pair: (2i, 2i+1) or (i, i + r/2).
enum class RopeStyle { kInterleaved, kHalfSplit };
enum class RopeType { kDefault, kYarn };

struct RopeConfig {
  RopeStyle style = RopeStyle::kInterleaved;
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  // The rest is YaRN (arXiv 2309.00071, with DeepSeek's mscale).
  double factor = 1;
  int64_t original_max_positions = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;         ///< floor / ceil the correction range
  double attention_factor = 1;  ///< multiplies cos and sin
};

/// YaRN's magnitude m(s, c) = 1 if s <= 1 else 0.1·c·ln s + 1.
double YarnMagnitude(double scale, double coefficient);

/// inv_freq [dim/2] in fp32, as the reference rounds them.
std::vector<float> RopeFrequencies(const RopeConfig& config, int64_t dim);

/// Fills cos and sin, each [positions, dim/2], multiplied by attention_factor. Angles are rounded
/// to fp32 before the cosine, as in the reference.
void RopeRows(const RopeConfig& config, std::span<const float> inv_freq,
              std::span<const int64_t> positions, float* cos, float* sin);

}  // namespace mla

#endif  // MLA_OPS_ROPE_TABLE_H_
