// Absorbed attention over int8 latent rows in plain loops: rows as the numbers that they stand for,
// queries and weights unrounded, sums in double.
#include "kernels/latent_int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"

namespace mla {
namespace reference {
namespace {

struct Int8Row {
  Int8Row(const void* tile, const LatentFormat& f, int64_t i)
      : c_kv(static_cast<const int8_t*>(tile) + i * f.row_bytes) {
    std::memcpy(&scale, c_kv + Int8ScaleOffset(f.rank), sizeof(scale));
    rope = reinterpret_cast<const char*>(c_kv) + f.rope_offset;
  }
  double Latent(int64_t x) const { return static_cast<double>(scale) * c_kv[x]; }
  double Rope(int64_t x) const {
    uint16_t bits = 0;
    std::memcpy(&bits, rope + 2 * x, sizeof(bits));
    return static_cast<double>(Fp16ToFloat(bits));
  }

  const int8_t* c_kv;
  const char* rope;
  float scale = 0;
};

// One (query row, head): its state is max (natural-log units), sum and acc of LatentBegin.
void FoldIn(const LatentFormat& f, const float* q, const void* tile, int64_t count, float* max,
            float* sum, float* acc) {
  double scores[kLatentTileRows];
  double best = static_cast<double>(*max);
  for (int64_t i = 0; i < count; ++i) {
    const Int8Row row(tile, f, i);
    double score = 0;
    for (int64_t x = 0; x < f.rank; ++x) score += static_cast<double>(q[x]) * row.Latent(x);
    for (int64_t x = 0; x < f.rope; ++x) {
      score += static_cast<double>(q[f.rank + x]) * row.Rope(x);
    }
    scores[i] = score;
    best = std::max(best, score);
  }
  // The state is fp32, and weights are relative to the maximum that it holds.
  const float shift = static_cast<float>(best);
  const double base = std::isinf(shift) && shift < 0 ? 0 : static_cast<double>(shift);
  const double shrink = std::exp(static_cast<double>(*max) - base);
  double total = static_cast<double>(*sum) * shrink;
  for (int64_t i = 0; i < count; ++i) total += scores[i] = std::exp(scores[i] - base);
  for (int64_t x = 0; x < f.rank; ++x) {
    double out = static_cast<double>(acc[x]) * shrink;
    for (int64_t i = 0; i < count; ++i) out += scores[i] * Int8Row(tile, f, i).Latent(x);
    acc[x] = static_cast<float>(out);
  }
  *max = shift;
  *sum = static_cast<float>(total);
}

}  // namespace

void LatentInt8Tile(const LatentTask& task, const LatentTileRows& tile) noexcept {
  float* max = task.scratch;  // as LatentBegin lays it out
  float* sum = max + task.rows * task.heads;
  float* acc = sum + task.rows * task.heads;
  for (int64_t row = 0; row < task.rows; ++row) {
    const int64_t count = std::clamp<int64_t>(tile.visible + row, 0, tile.count);
    for (int64_t head = 0; head < task.heads && count > 0; ++head) {
      const int64_t pair = row * task.heads + head;
      FoldIn(task.format, task.q + row * task.q_row_stride + head * task.q_head_stride, tile.data,
             count, max + pair, sum + pair, acc + pair * task.format.rank);
    }
  }
}

}  // namespace reference
}  // namespace mla
