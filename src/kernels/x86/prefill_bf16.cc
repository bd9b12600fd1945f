// Per tile of 256 keys: up-projection of its rows to keys and values in bf16 (products), then per
// block of 32 query rows scores, softmax and output (products, lanes are query rows).
#include "kernels/x86/prefill_bf16.h"

#include <algorithm>

#include "base/float16.h"
#include "kernels/latent_unit.h"
#include "kernels/x86/prefill_layout.h"

#if defined(__x86_64__)

#include "kernels/x86/prefill_pack.h"
#include "kernels/x86/prefill_softmax.h"

namespace mla {
namespace {

using prefill::GroupKeys;
using prefill::KeyRows;
using zmm::kNone;

constexpr int64_t kPart = PrefillLayout::kPart;
constexpr int64_t kGroups = PrefillLayout::kGroups;

PrefillLayout LayoutOf(const PrefillTask& task) {
  return PrefillLayout(task.format, task.rows, task.nope, task.v_dim, task.scratch);
}

const BlockProducts* ProductsOf(DotUnit unit) noexcept {
  if (unit == DotUnit::kAmxBf16) return AmxBlockProducts();
  return unit == DotUnit::kBf16Dot ? Bf16DotBlockProducts() : nullptr;
}

MLA_ZMM void PackQueries(const PrefillTask& task, const PrefillLayout& l) {
  for (int64_t group = 0; group < l.groups; ++group) {
    const int64_t first = group * kBf16Lanes;
    const int64_t rows = std::clamp<int64_t>(task.rows - first, 0, kBf16Lanes);
    const float* from = task.q + (rows > 0 ? first : 0) * task.q_row_stride;
    constexpr int64_t kStep = PrefillLayout::kParts * kPart;
    zmm::PackQuery(from, task.q_row_stride, rows, task.nope, false, kStep, l.Q(group));
    zmm::PackQuery(from + task.nope, task.q_row_stride, rows, task.format.rope, false, kStep,
                   l.Q(group) + l.nope_steps * kStep);
  }
}

MLA_ZMM void PackWeights(const PrefillTask& task, const PrefillLayout& l) {
  const auto pack = [&](const void* weight, int64_t rows, int64_t blocks, int64_t first) {
    const int64_t stride = 2 * task.w_stride;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t left = std::max<int64_t>(rows - block * kBf16Lanes, 0);
      const char* from = static_cast<const char*>(weight) + block * kBf16Lanes * stride;
      prefill::PackWeightRows(from, stride, left, task.format.rank, l.Weights(first + block));
    }
  };
  pack(task.w_uk, task.nope, 2 * l.nope_steps, 0);
  pack(task.w_uv, task.v_dim, l.v_blocks, 2 * l.nope_steps);
}

// Sums of a run for every column, in passes over parts of the depth that leave its rows in the L1
// cache while the weights come from L2.
void UpProjectRun(const PrefillLayout& l, const KeyRows& rows, int64_t blocks,
                  const BlockProducts& products) {
  constexpr int64_t kPassSteps = 8;
  const int64_t passes = PrefillLayout::Up(l.rank_steps, kPassSteps);
  const int64_t pass_steps = PrefillLayout::Up(l.rank_steps, passes);
  BlockProduct w;
  w.rows = static_cast<int>(blocks);
  w.columns = 1;
  w.a_row = rows.stride;
  w.a_step = 2 * kBf16Depth;
  w.b_step = kPart;
  for (int64_t first = 0; first < l.rank_steps; first += pass_steps) {
    w.steps = std::min(pass_steps, l.rank_steps - first);
    w.accumulate = first > 0;
    for (int64_t i = 0; i < blocks; ++i) {
      w.a[i] = rows.data + i * kBf16Block * rows.stride + first * w.a_step;
    }
    for (int64_t column = 0; column < 2 * l.nope_steps + l.v_blocks; ++column) {
      w.b[0] = l.Weights(column) + first * kPart;
      for (int64_t i = 0; i < blocks; ++i) w.c[i][0] = l.Sums(column) + i * kPart;
      products.product(w);
    }
  }
}

// Keys and values of the tile. False if a value is not finite.
bool UpProject(const PrefillTask& task, const PrefillLayout& l, const LatentTileRows& tile,
               const BlockProducts& products) {
  constexpr int64_t kHalves = PrefillLayout::kRunRows / kBf16Depth;
  bool finite = true;
  KeyRows rows;
  for (int64_t first = 0; first < tile.count; first += PrefillLayout::kRunRows) {
    const int64_t left = PrefillLayout::Up(tile.count - first, kBf16Depth);
    const int64_t halves = std::min(left, kHalves);
    const int64_t blocks = halves * kBf16Depth / kBf16Block;
    prefill::FindRows(task, l, tile, first, rows);
    UpProjectRun(l, rows, blocks, products);
    for (int64_t step = 0; step < l.nope_steps; ++step) {
      prefill::StoreKeys(l, rows, first / kBf16Block, blocks, step);
    }
    for (int64_t block = 0; block < l.v_blocks; ++block) {
      for (int64_t half = 0; half < halves; ++half) {
        finite &= prefill::StoreValues(l, rows, first / kBf16Depth + half, half, block);
      }
    }
  }
  prefill::StoreRopes(task, l, tile);
  return finite;
}

void Scores(const PrefillLayout& l, int64_t block, int64_t keys, int64_t parts, float* s,
            const BlockProducts& products) {
  BlockProduct w;
  w.columns = 2;
  w.a_row = 4 * kBf16Pairs;
  w.a_step = 4 * kPart;
  w.b_step = PrefillLayout::kParts * kPart;
  w.steps = l.steps;
  w.parts = parts;
  w.again = l.rope_steps;
  for (int j = 0; j < 2; ++j) w.b[j] = l.Q(block * kGroups + j);
  const int64_t blocks = PrefillLayout::Up(keys, kBf16Block);
  for (int64_t key = 0; key < blocks; key += 2) {
    w.rows = static_cast<int>(std::min<int64_t>(2, blocks - key));
    for (int i = 0; i < w.rows; ++i) {
      w.a[i] = reinterpret_cast<const char*>(l.K(key + i));
      for (int j = 0; j < 2; ++j) w.c[i][j] = s + ((key + i) * kGroups + j) * kPart;
    }
    products.product(w);
  }
}

MLA_ZMM void Shrink(const PrefillLayout& l, int64_t group, __m512 shrink) {
  if (_mm512_cmp_ps_mask(shrink, _mm512_set1_ps(1.0f), _CMP_NEQ_UQ) == 0) return;
  float* acc = l.Acc(group);
  for (int64_t i = 0; i < l.v_blocks * kPart; i += kBf16Lanes) {
    _mm512_storeu_ps(acc + i, _mm512_mul_ps(_mm512_loadu_ps(acc + i), shrink));
  }
}

void Output(const PrefillLayout& l, int64_t block, int64_t steps, const BlockProducts& products) {
  BlockProduct w;
  w.columns = 2;
  w.a_row = 4 * kBf16Pairs;
  w.a_step = 4 * kPart;
  w.b_step = kGroups * kPart;
  w.steps = steps;
  w.accumulate = true;
  for (int j = 0; j < 2; ++j) w.b[j] = l.p + j * kPart;
  for (int64_t v = 0; v < l.v_blocks; v += 2) {
    w.rows = static_cast<int>(std::min<int64_t>(2, l.v_blocks - v));
    for (int i = 0; i < w.rows; ++i) {
      w.a[i] = reinterpret_cast<const char*>(l.v + l.V(v + i));
      for (int j = 0; j < 2; ++j) w.c[i][j] = l.Acc(block * kGroups + j) + (v + i) * kPart;
    }
    products.product(w);
  }
}

// A weight of 0 must not meet a value that is not finite where the row does not see the key, so
// such values are apart: 0 among the others, and added here, to the lanes that see them.
void PutBrokenAside(const PrefillLayout& l) {
  auto* v = reinterpret_cast<uint16_t*>(l.v);
  auto* broken = reinterpret_cast<uint16_t*>(l.broken_v);
  for (int64_t i = 0; i < 2 * l.v_blocks * PrefillLayout::kKeySteps * kPart; ++i) {
    const bool finite = (v[i] & 0x7f80) != 0x7f80;
    broken[i] = finite ? uint16_t{0} : v[i];
    if (!finite) v[i] = 0;
  }
}

MLA_ZMM void AddBroken(const PrefillLayout& l, int64_t block, int64_t of_block,
                       const GroupKeys& seen) {
  const auto* broken = reinterpret_cast<const uint16_t*>(l.broken_v);
  const auto* p = reinterpret_cast<const uint16_t*>(l.p);
  float* acc = l.Acc(block * kGroups + of_block);
  for (int64_t column = 0; column < l.v_blocks * kBf16Lanes; ++column) {
    const int64_t row = 2 * l.V(column / kBf16Lanes) + column % kBf16Lanes * kBf16Depth;
    for (int64_t key = 0; key < seen.keys; ++key) {
      const int64_t step = key / kBf16Depth;
      const uint16_t value = broken[row + step * 2 * kPart + key % kBf16Depth];
      if (value == 0) continue;
      const __mmask16 lanes = seen.Lanes(key);
      for (int64_t lane = 0; lane < kBf16Lanes; ++lane) {
        if ((lanes >> lane & 1) == 0) continue;
        const int64_t at = (step * kGroups + of_block) * kPart + key % kBf16Depth / 2 * kBf16Lanes;
        const float weight = Bf16ToFloat(p[2 * (at + lane) + key % 2]);
        acc[column * kBf16Lanes + lane] += weight * Bf16ToFloat(value);
      }
    }
  }
}

GroupKeys KeysOf(const PrefillTask& task, const LatentTileRows& tile, int64_t group) {
  const int64_t first = group * kBf16Lanes;
  const int64_t last = std::min(first + kBf16Lanes, task.rows) - 1;
  if (last < first) return {};
  return {tile.visible + first, zmm::Seen(tile, last)};
}

MLA_ZMM void AttendBlock(const PrefillTask& task, const PrefillLayout& l,
                         const LatentTileRows& tile, int64_t block, bool finite,
                         const BlockProducts& products) {
  GroupKeys seen[kGroups];
  int64_t keys = 0;
  for (int64_t i = 0; i < kGroups; ++i) {
    seen[i] = KeysOf(task, tile, block * kGroups + i);
    keys = std::max(keys, seen[i].keys);
  }
  if (keys == 0) return;
  const int64_t steps = PrefillLayout::Up(keys, kBf16Depth);
  Scores(l, block, keys, PrefillLayout::kParts, l.s, products);
  bool have_high = false;
  for (int64_t i = 0; i < kGroups; ++i) {
    const int64_t group = block * kGroups + i;
    __m512 best;
    if (!prefill::MaxScores(l.s, i, seen[i], best)) {
      // The low part of a query times an infinite key is an infinity of either sign, or NaN: for a
      // score that is not finite the high parts alone count.
      if (!have_high) Scores(l, block, keys, 1, l.high, products);
      have_high = true;
      best = prefill::ReplaceNotFinite(l.high, i, seen[i], l.s);
    }
    Shrink(l, group, prefill::Softmax(l, group, i, seen[i], steps, best));
  }
  Output(l, block, steps, products);
  if (finite) return;
  for (int64_t i = 0; i < kGroups; ++i) AddBroken(l, block, i, seen[i]);
}

}  // namespace

void PrefillBf16Begin(const PrefillTask& task, const BlockProducts& products) noexcept {
  const PrefillLayout l = LayoutOf(task);
  std::fill(l.acc, l.acc + l.groups * l.v_blocks * kPart, 0.0f);
  std::fill(l.max, l.max + l.groups * kBf16Lanes, kNone);
  std::fill(l.sum, l.sum + l.groups * kBf16Lanes, 0.0f);
  PackQueries(task, l);
  PackWeights(task, l);
  products.begin();
}

void PrefillBf16Tile(const PrefillTask& task, const LatentTileRows& tile,
                     const BlockProducts& products) noexcept {
  const PrefillLayout l = LayoutOf(task);
  const int64_t keys = zmm::Seen(tile, task.rows - 1);
  if (keys == 0) return;
  LatentTileRows live = tile;
  live.count = keys;  // rows that nobody sees are not read
  const bool finite = UpProject(task, l, live, products);
  if (!finite) PutBrokenAside(l);
  for (int64_t block = 0; block * kGroups < l.groups; ++block) {
    AttendBlock(task, l, live, block, finite, products);
  }
}

MLA_ZMM void PrefillBf16Finish(const PrefillTask& task, const BlockProducts& products) noexcept {
  products.end();
  const PrefillLayout l = LayoutOf(task);
  for (int64_t row = 0; row < task.rows; row += kBf16Lanes) {
    const int64_t group = row / kBf16Lanes;
    for (int64_t block = 0; block < l.v_blocks; ++block) {
      const float* acc = l.Acc(group) + block * kPart;
      __m512i r[16];
      for (int64_t i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(acc + i * kBf16Lanes);
      zmm::Transpose(r);
      const __mmask16 mask = zmm::FirstLanes(task.v_dim - block * kBf16Lanes);
      for (int64_t i = 0; i < std::min(kBf16Lanes, task.rows - row); ++i) {
        // The sum is 0 only for a row that saw no key; NaN must stay visible.
        const float sum = l.sum[row + i];
        const __m512 inverse = _mm512_set1_ps(sum == 0.0f ? 0.0f : 1.0f / sum);
        _mm512_mask_storeu_ps(task.out + (row + i) * task.out_row_stride + block * kBf16Lanes, mask,
                              _mm512_mul_ps(_mm512_castsi512_ps(r[i]), inverse));
      }
    }
  }
}

int64_t PrefillScratchFloats(const LatentFormat& format, int64_t rows, int64_t nope,
                             int64_t v_dim) noexcept {
  return PrefillLayout(format, rows, nope, v_dim, nullptr).floats;
}

bool PrefillTakes(const LatentFormat& format, int64_t rows, int64_t nope, int64_t v_dim) noexcept {
  return ProductsOf(format.unit) != nullptr &&
         (LatentBf16Takes(format) || format.type == Elem::kInt8) &&
         PrefillScratchFloats(format, rows, nope, v_dim) <= kMostPrefillFloats;
}

void PrefillBegin(const PrefillTask& task) noexcept {
  PrefillBf16Begin(task, *ProductsOf(task.format.unit));
}
void PrefillTile(const PrefillTask& task, const LatentTileRows& tile) noexcept {
  PrefillBf16Tile(task, tile, *ProductsOf(task.format.unit));
}
void PrefillFinish(const PrefillTask& task) noexcept {
  PrefillBf16Finish(task, *ProductsOf(task.format.unit));
}

}  // namespace mla

#else

namespace mla {

int64_t PrefillScratchFloats(const LatentFormat&, int64_t, int64_t, int64_t) noexcept { return 0; }
bool PrefillTakes(const LatentFormat&, int64_t, int64_t, int64_t) noexcept { return false; }
void PrefillBf16Begin(const PrefillTask&, const BlockProducts&) noexcept {}
void PrefillBf16Tile(const PrefillTask&, const LatentTileRows&, const BlockProducts&) noexcept {}
void PrefillBf16Finish(const PrefillTask&, const BlockProducts&) noexcept {}
void PrefillBegin(const PrefillTask&) noexcept {}
void PrefillTile(const PrefillTask&, const LatentTileRows&) noexcept {}
void PrefillFinish(const PrefillTask&) noexcept {}

}  // namespace mla

#endif
