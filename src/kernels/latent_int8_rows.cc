// How int8 latent rows are stored.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/latent_int8.h"

namespace mla {

void QuantizeInt8Row(const float* c_kv, int64_t rank, void* row) noexcept {
  float largest = 0;
  bool finite = true;
  for (int64_t x = 0; x < rank; ++x) {
    const float magnitude = std::fabs(c_kv[x]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = std::max(largest, magnitude);
  }
  const float scale = finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  // In double, so that neither the inverse of a tiny scale nor its rounding matters.
  const double inverse = finite && largest > 0 ? 127.0 / static_cast<double>(largest) : 0.0;
  int8_t* to = static_cast<int8_t*>(row);
  for (int64_t x = 0; x < rank; ++x) {
    to[x] = finite ? static_cast<int8_t>(std::lrint(static_cast<double>(c_kv[x]) * inverse))
                   : int8_t{0};
  }
  std::fill(to + rank, to + Int8ScaleOffset(rank), int8_t{0});
  std::memcpy(to + Int8ScaleOffset(rank), &scale, sizeof(scale));
}

void DequantizeInt8Row(const void* row, int64_t rank, float* out) noexcept {
  const int8_t* from = static_cast<const int8_t*>(row);
  float scale = 0;
  std::memcpy(&scale, from + Int8ScaleOffset(rank), sizeof(scale));
  for (int64_t x = 0; x < rank; ++x) out[x] = scale * static_cast<float>(from[x]);
}

}  // namespace mla
