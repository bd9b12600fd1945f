#include "kernels/latent_int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attend.h"
#include "kernels/latent_unit.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/latent_int8.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "kernels/exp2-inl.h"
#include "kernels/int8_pairs-inl.h"
#include "kernels/int8_products-inl.h"
#include "kernels/tile-inl.h"

// The schedule (docs/kernels/int8_latent.md): as in latent.cc query heads are the lanes of the
// scores and columns those of the output, with pairs of 16-bit integers where that has fp32: two
// columns per step of the scores, two rows per step of the output. Integer sums are exact, so
// neither blocking nor instruction set changes a bit of them.

HWY_BEFORE_NAMESPACE();
namespace mla {
namespace HWY_NAMESPACE {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();
// Tiles whose largest weight is below this contribute nothing: its inverse must stay finite.
constexpr float kLeastWeight = 1e-30f;

int64_t Int8ScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) {
  LatentTask task;
  task.format = format;
  task.rows = rows;
  task.heads = heads;
  return Int8Layout(task).floats;
}

// One head of one query row: 16-bit integers with a common scale.
void QuantizeQuery(const LatentTask& task, const Int8Layout& l, int64_t query, int64_t head) {
  const float* from = task.q + query * task.q_row_stride + head * task.q_head_stride;
  const int64_t rank = task.format.rank;
  const int64_t group = head / l.lanes, lane = head % l.lanes;
  const int64_t at = l.Group(query, group) * l.lanes + lane;
  float largest = 0;
  bool finite = true;
  for (int64_t x = 0; x < rank; ++x) {
    const float magnitude = std::fabs(from[x]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = std::max(largest, magnitude);
  }
  const double most = static_cast<double>(Int8QueryMax(rank));
  const bool some = finite && largest > 0;
  const double inverse = some ? most / static_cast<double>(largest) : 0;
  l.q_scale[at] = finite ? static_cast<float>(static_cast<double>(largest) / most) * kLog2E
                         : std::numeric_limits<float>::quiet_NaN();
  const bool dot = l.dot_rest && group == l.full;
  int32_t* to = l.Q(query, group) + (dot ? lane * l.words : lane);
  const int64_t step = dot ? 1 : l.lanes;
  const auto digit = [&](int64_t x) -> uint32_t {
    if (x >= rank || !some) return 0;
    return static_cast<uint32_t>(std::lrint(static_cast<double>(from[x]) * inverse)) & 0xffffu;
  };
  for (int64_t word = 0; word < l.words; ++word) {
    to[word * step] = static_cast<int32_t>(digit(2 * word) | digit(2 * word + 1) << 16);
  }
  float* rope = l.q_rope + l.Group(query, group) * l.rope * l.lanes + lane;
  for (int64_t x = 0; x < l.rope; ++x) rope[x * l.lanes] = from[rank + x] * kLog2E;
}

void Int8Begin(const LatentTask& task) {
  const Int8Layout l(task);
  const int64_t all = task.rows * l.groups;
  std::fill(l.q, l.q + all * l.words * l.lanes, 0);
  std::fill(l.q_rope, l.q_rope + all * l.rope * l.lanes, 0.0f);
  std::fill(l.q_scale, l.q_scale + all * l.lanes, 0.0f);
  std::fill(l.max, l.max + all * l.lanes, kNoScore);
  std::fill(l.sum, l.sum + all * l.lanes, 0.0f);
  std::fill(l.acc, l.acc + task.rows * l.heads * l.columns, 0.0f);
  for (int64_t query = 0; query < task.rows; ++query) {
    for (int64_t head = 0; head < l.heads; ++head) QuantizeQuery(task, l, query, head);
  }
}

// Sums to weights, for one group of heads: 16-bit integers on the scale of the tile's largest, so
// that the weights of a tile in a long flat tail keep their precision.
void Int8Softmax(const Int8Layout& l, int64_t query, int64_t group, int64_t seen) {
  const DF d;
  const DI di;
  float* s = l.Scores(query, group);
  int32_t* sums = l.Sums(query, group);
  const int64_t at = l.Group(query, group) * l.lanes;
  const VF q_scale = hn::LoadU(d, l.q_scale + at);
  VF best = hn::Set(d, kNoScore);
  for (int64_t i = 0; i < seen; ++i) {
    const VF sum = hn::ConvertTo(d, hn::LoadU(di, sums + i * l.lanes));
    const VF scale = hn::Mul(q_scale, hn::Set(d, l.row_scale[i]));
    const VF score = hn::MulAdd(sum, scale, hn::LoadU(d, s + i * l.lanes));
    hn::StoreU(score, d, s + i * l.lanes);
    best = hn::Max(best, score);
  }
  const VF old = hn::LoadU(d, l.max + at);
  const VF max = hn::Max(old, best);
  // With only -inf so far the weights must come out as 0, not as exp(-inf + inf).
  const VF shift = hn::IfThenElse(hn::Eq(max, hn::Set(d, kNoScore)), hn::Zero(d), max);
  VF total = hn::Zero(d);
  VF largest = hn::Zero(d);
  for (int64_t i = 0; i < seen; ++i) {
    const VF p = Exp2NotAboveZero(d, hn::Sub(hn::LoadU(d, s + i * l.lanes), shift));
    total = hn::Add(total, p);
    // NaN is kept by the sum; as a weight it has no integer.
    const VF w = hn::Mul(p, hn::Set(d, l.row_scale[i]));
    const VF weight = hn::IfThenElseZero(hn::Eq(w, w), w);
    hn::StoreU(weight, d, s + i * l.lanes);
    largest = hn::Max(largest, weight);
  }
  const auto some = hn::Ge(largest, hn::Set(d, kLeastWeight));
  const VF most = hn::Set(d, static_cast<float>(kInt8WeightMax));
  const VF inverse = hn::IfThenElseZero(some, hn::Div(most, largest));
  const auto digit = [&](int64_t i) {
    return hn::NearestInt(hn::Mul(hn::LoadU(d, s + i * l.lanes), inverse));
  };
  for (int64_t i = 0; i < seen; i += 2) {
    const VI low = hn::And(digit(i), hn::Set(di, 0xffff));
    const VI high = i + 1 < seen ? hn::ShiftLeft<16>(digit(i + 1)) : hn::Zero(di);
    hn::StoreU(hn::Or(low, high), di, sums + i / 2 * l.lanes);
  }
  const VF shrink = Exp2NotAboveZero(d, hn::Sub(old, shift));
  hn::StoreU(hn::MulAdd(hn::LoadU(d, l.sum + at), shrink, total), d, l.sum + at);
  hn::StoreU(max, d, l.max + at);
  hn::StoreU(shrink, d, l.shrink + at);
  hn::StoreU(hn::IfThenElseZero(some, hn::Div(largest, most)), d, l.factor + at);
}

template <bool kUnit>
void Int8TileBy(const LatentTask& task, const LatentTileRows& tile) {
  const Int8Layout l(task);
  const int64_t most = SeenRows(tile, task.rows - 1);
  if (most == 0) return;
  const char* data = static_cast<const char*>(tile.data);
  for (int64_t i = 0; i < most; ++i) {
    std::memcpy(l.row_scale + i,
                data + i * task.format.row_bytes + Int8ScaleOffset(task.format.rank),
                sizeof(float));
  }
  Int8Sums<kUnit>(task, l, tile, most);
  RopeScores(task, l, tile, most);
  for (int64_t query = 0; query < task.rows; ++query) {
    const int64_t seen = SeenRows(tile, query);
    if (seen == 0) continue;
    for (int64_t group = 0; group < l.groups; ++group) Int8Softmax(l, query, group, seen);
  }
  Int8Output<kUnit>(task, l, tile, most);
}

void Int8TilePairs(const LatentTask& task, const LatentTileRows& tile) {
  Int8TileBy<false>(task, tile);
}
// The same where the ISA has no dot unit.
void Int8TileUnit(const LatentTask& task, const LatentTileRows& tile) {
  Int8TileBy<kHasDotPairsUnit>(task, tile);
}

void Int8Finish(const LatentTask& task) {
  const Int8Layout l(task);
  for (int64_t query = 0; query < task.rows; ++query) {
    for (int64_t head = 0; head < l.heads; ++head) {
      const int64_t at = l.Group(query, 0) * l.lanes + head;
      // The sum is 0 only for a row that saw no key; NaN must stay visible.
      const bool saw = !(l.sum[at] == 0.0f);
      const float inverse = saw ? 1.0f / l.sum[at] : 0.0f;
      const float* acc = l.acc + (query * l.heads + head) * l.columns;
      float* out = task.out + query * task.out_row_stride + head * task.out_head_stride;
      for (int64_t x = 0; x < task.format.rank; ++x) {
        out[x] = acc[InterleavedColumn(x, l.lanes)] * inverse;
      }
      if (task.lse != nullptr) {
        task.lse[query * task.lse_row_stride + head] =
            saw ? std::log2(l.sum[at]) + l.max[at] : kNoScore;
      }
    }
  }
}

int DotPairsUnit() { return kDotPairsUnit; }

}  // namespace HWY_NAMESPACE
}  // namespace mla
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mla {
namespace {

HWY_EXPORT(Int8ScratchFloats);
HWY_EXPORT(Int8Begin);
HWY_EXPORT(Int8TilePairs);
HWY_EXPORT(Int8TileUnit);
HWY_EXPORT(Int8Finish);
HWY_EXPORT(DotPairsUnit);

// True if the chosen ISA's kernel has the unit.
bool HasUnit(DotUnit unit) {
  const int width = HWY_DYNAMIC_DISPATCH(DotPairsUnit)();
  return (unit == DotUnit::kVnni512 && width == 512) || (unit == DotUnit::kVnni256 && width == 256);
}

}  // namespace

int64_t LatentInt8ScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) noexcept {
  return HWY_DYNAMIC_DISPATCH(Int8ScratchFloats)(format, rows, heads);
}
void LatentInt8Begin(const LatentTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Int8Begin)(task); }
void LatentInt8Tile(const LatentTask& task, const LatentTileRows& tile) noexcept {
  if (HasUnit(task.format.unit)) {
    HWY_DYNAMIC_DISPATCH(Int8TileUnit)(task, tile);
  } else {
    HWY_DYNAMIC_DISPATCH(Int8TilePairs)(task, tile);
  }
}
void LatentInt8Finish(const LatentTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Int8Finish)(task); }

const char* Int8LatentFamily(DotUnit unit) noexcept {
  return unit == DotUnit::kAmxInt8 || HasUnit(unit) ? DotUnitName(unit) : "pairs";
}

}  // namespace mla
#endif  // HWY_ONCE
