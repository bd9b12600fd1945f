// The shared part of the bf16 families: packing, the k_rope part of the scores, the softmax. One
// tile runs scores (products), softmax, and per piece of columns interleaving and output
// (products).
#include "kernels/x86/latent_bf16.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "kernels/attend.h"
#include "kernels/x86/latent_bf16_layout.h"

#if defined(__x86_64__)

#include "kernels/x86/latent_bf16_softmax.h"

namespace mla {
namespace {

using latent_bf16::kNone;
using latent_bf16::Softmax;

constexpr int64_t kPieceColumns = kBf16PieceBlocks * kBf16Lanes;

Bf16Layout LayoutOf(const LatentTask& task) {
  return Bf16Layout(task.format, task.rows, task.heads, task.scratch);
}

// How many of the tile's rows query row i sees.
int64_t Seen(const LatentTileRows& tile, int64_t query) {
  return std::clamp<int64_t>(tile.visible + query, 0, tile.count);
}

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// x = high + low but for 2^-18 of it: round to nearest even, then what is left of it rounded alike.
void Split(float x, uint16_t& high, uint16_t& low) {
  high = FloatToBf16(x);
  low = 0;
  if (!std::isfinite(x)) return;
  // Rounded up to infinity: cut off instead.
  if (!std::isfinite(Bf16ToFloat(high))) high = static_cast<uint16_t>(high - 1);
  low = FloatToBf16(x - Bf16ToFloat(high));
}

// The last block and the last columns as copies with zeros around, where they are not whole.
void PadRows(const LatentTask& task, const Bf16Layout& l, const char* data, int64_t rows,
             Bf16Scores& w) {
  const LatentFormat& f = task.format;
  for (int64_t block = 0; block < w.blocks; ++block) {
    const int64_t first = block * kBf16Block;
    const int64_t count = std::min(rows - first, kBf16Block);
    w.block[block] = data + first * f.row_bytes;
    w.row_bytes[block] = f.row_bytes;
    if (count == kBf16Block || w.whole == 0) continue;
    char* to = reinterpret_cast<char*>(l.pad_rows);
    const auto bytes = static_cast<size_t>(w.whole * 2 * kBf16Depth);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * 2 * l.rank, w.block[block] + i * f.row_bytes, bytes);
    }
    std::memset(to + count * 2 * l.rank, 0, static_cast<size_t>((kBf16Block - count) * 2 * l.rank));
    w.block[block] = to;
    w.row_bytes[block] = 2 * l.rank;
  }
  if (w.whole == w.steps) return;
  char* to = reinterpret_cast<char*>(l.tail);
  std::memset(to, 0, static_cast<size_t>(w.blocks * kBf16Block * 2 * kBf16Depth));
  const int64_t column = w.whole * kBf16Depth;
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * 2 * kBf16Depth, data + i * f.row_bytes + 2 * column,
                static_cast<size_t>(2 * (f.rank - column)));
  }
}

// k_rope in fp32, with rows of zeros up to whole blocks.
MLA_ZMM void WidenRope(const LatentFormat& f, const Bf16Layout& l, const char* data, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    const char* from = data + i * f.row_bytes + f.rope_offset;
    float* to = l.rope_rows + i * l.rope;
    for (int64_t x = 0; x < l.rope; x += 16) {
      const auto mask = static_cast<__mmask16>(0xffffu >> std::max<int64_t>(0, 16 - (l.rope - x)));
      const __m256i halves = _mm256_maskz_loadu_epi16(mask, from + 2 * x);
      _mm512_mask_storeu_ps(to + x, mask, _mm512_maskz_cvtph_ps(mask, halves));
    }
  }
  std::fill(l.rope_rows + rows * l.rope, l.rope_rows + RoundUp(rows, kBf16Block) * l.rope, 0.0f);
}

// s = q_rope·k_rope for one group of heads: exact products of fp32, lanes are heads.
MLA_ZMM void RopeScores(const Bf16Layout& l, int64_t group, int64_t rows) {
  constexpr int kRows = 8;
  float* s = l.s + group * Bf16Layout::kScoreFloats;
  for (int64_t row = 0; row < rows; row += kRows) {
    const float* k = l.rope_rows + row * l.rope;
    const float* q = l.q_rope + group * l.rope * kBf16Lanes;
    __m512 acc[kRows];
    for (int i = 0; i < kRows; ++i) acc[i] = _mm512_setzero_ps();
    for (int64_t x = 0; x < l.rope; ++x) {
      const __m512 qv = _mm512_loadu_ps(q + x * kBf16Lanes);
      for (int i = 0; i < kRows; ++i) {
        acc[i] = _mm512_fmadd_ps(_mm512_set1_ps(k[i * l.rope + x]), qv, acc[i]);
      }
    }
    for (int i = 0; i < kRows; ++i) _mm512_storeu_ps(s + (row + i) * kBf16Lanes, acc[i]);
  }
}

float* Acc(const LatentTask& task, const Bf16Layout& l, int64_t query, int64_t group) {
  return l.acc + (query * task.heads + group * kBf16Lanes) * l.rank;
}

// Most tiles raise the maximum of few heads, and those of the others stay as they are.
MLA_ZMM void Shrink(const LatentTask& task, const Bf16Layout& l, int64_t query, int64_t group) {
  const float* shrink = l.shrink + l.Group(query, group) * kBf16Lanes;
  const int64_t heads = l.Heads(group);
  for (int64_t head = 0; head < heads; ++head) {
    if (shrink[head] == 1.0f) continue;
    const __m512 factor = _mm512_set1_ps(shrink[head]);
    float* acc = Acc(task, l, query, group) + head * kBf16Lanes;
    for (int64_t block = 0; block < l.rank / kBf16Lanes; ++block, acc += heads * kBf16Lanes) {
      _mm512_storeu_ps(acc, _mm512_mul_ps(_mm512_loadu_ps(acc), factor));
    }
  }
}

// Rows 2i and 2i + 1 side by side, columns in the order that the unpack instructions leave: of each
// 32, those with an even quarter of eight, 4 at a time, then the others. Zeros from `rows` on.
MLA_ZMM void Interleave(const LatentFormat& f, const char* data, int64_t rows, int64_t column,
                        int64_t columns, float* piece, Bf16Prefetch& prefetch) {
  constexpr int64_t kTile = kBf16Depth / 2 * kBf16Lanes;
  for (int64_t x = 0; x < columns; x += 32) {
    const int64_t left = f.rank - column - x;
    const __mmask32 mask = left >= 32 ? 0xffffffffu : (uint32_t{1} << left) - 1;
    const char* from = data + 2 * (column + x);
    for (int64_t row = 0; row < RoundUp(rows, kBf16Depth); row += 2) {
      prefetch.Next();
      const __m512i a = _mm512_maskz_loadu_epi16(row < rows ? mask : 0, from + row * f.row_bytes);
      const __m512i b =
          _mm512_maskz_loadu_epi16(row + 1 < rows ? mask : 0, from + (row + 1) * f.row_bytes);
      float* to = piece + (row / kBf16Depth * kBf16PieceBlocks + x / kBf16Lanes) * kTile +
                  row % kBf16Depth / 2 * kBf16Lanes;
      _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, b));
      _mm512_storeu_si512(to + kTile, _mm512_unpackhi_epi16(a, b));
    }
  }
}

void Output(const LatentTask& task, const Bf16Layout& l, const LatentTileRows& tile,
            Bf16Prefetch& prefetch, const Bf16Products& products) {
  const char* data = static_cast<const char*>(tile.data);
  for (int64_t column = 0; column < l.rank; column += kPieceColumns) {
    const int64_t columns = std::min(kPieceColumns, l.rank - column);
    int64_t rows = 0;
    for (int64_t query = 0; query < task.rows; ++query) {
      const int64_t seen = Seen(tile, query);
      if (seen == 0) continue;
      // Anew where this row sees more: even a weight of 0 must not meet what a row does not see.
      if (seen != rows) {
        Interleave(task.format, data, seen, column, columns, l.piece, prefetch);
      }
      rows = seen;
      for (int64_t group = 0; group < l.groups; ++group) {
        Bf16Output w;
        w.heads = l.Heads(group);
        w.acc = Acc(task, l, query, group) + column * w.heads;
        w.p = l.p + l.Group(query, group) * Bf16Layout::kScoreFloats / 2;
        w.rows = seen;
        w.piece = l.piece;
        w.columns = columns / kBf16Lanes;
        w.rest = l.rest > 0;
        products.output(w);
      }
    }
  }
}

// One head's state to its output, columns back in order.
MLA_ZMM void WriteHead(const float* acc, int64_t heads, int64_t rank, float inverse, float* out) {
  const __m512 factor = _mm512_set1_ps(inverse);
  const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  for (int64_t x = 0; x < rank; x += 32) {
    const __m512 a = _mm512_mul_ps(_mm512_loadu_ps(acc), factor);
    const __m512 b = _mm512_mul_ps(_mm512_loadu_ps(acc + heads * kBf16Lanes), factor);
    const int64_t left = rank - x;
    const uint32_t mask = left >= 32 ? 0xffffffffu : (uint32_t{1} << left) - 1;
    _mm512_mask_storeu_ps(out + x, static_cast<__mmask16>(mask), _mm512_permutex2var_ps(a, low, b));
    _mm512_mask_storeu_ps(out + x + 16, static_cast<__mmask16>(mask >> 16),
                          _mm512_permutex2var_ps(a, high, b));
    acc += 2 * heads * kBf16Lanes;
  }
}

}  // namespace

bool LatentBf16Takes(const LatentFormat& format) noexcept {
  return format.type == Elem::kBf16 && format.rope_type == Elem::kF16;
}

int64_t LatentBf16ScratchFloats(const LatentFormat& format, int64_t rows, int64_t heads) noexcept {
  return Bf16Layout(format, rows, heads, nullptr).floats;
}

void LatentBf16Begin(const LatentTask& task, const Bf16Products& products) noexcept {
  const Bf16Layout l = LayoutOf(task);
  const int64_t all = task.rows * l.groups;
  std::fill(l.q, l.scores, 0.0f);
  std::fill(l.max, l.max + all * kBf16Lanes, kNone);
  std::fill(l.sum, l.sum + all * kBf16Lanes, 0.0f);
  std::fill(l.acc, l.acc + task.rows * task.heads * l.rank, 0.0f);
  const LatentFormat& f = task.format;
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t head = 0; head < task.heads; ++head) {
      const float* from = task.q + row * task.q_row_stride + head * task.q_head_stride;
      const int64_t group = head / kBf16Lanes;
      const int64_t lane = head % kBf16Lanes;
      auto* high = reinterpret_cast<char*>(l.q + l.Panel(row, group) * l.PanelFloats() + lane);
      char* low = high + 4 * (l.Shared(group) ? kBf16Lanes / 2 : l.PanelFloats());
      // Scores in log2 units from here on.
      for (int64_t x = 0; x < f.rank; ++x) {
        uint16_t parts[2];
        Split(from[x] * kLog2E, parts[0], parts[1]);
        const int64_t at = x / 2 * 4 * kBf16Lanes + x % 2 * 2;
        std::memcpy(high + at, &parts[0], 2);
        std::memcpy(low + at, &parts[1], 2);
      }
      float* rope = l.q_rope + l.Group(row, group) * l.rope * kBf16Lanes + lane;
      for (int64_t x = 0; x < f.rope; ++x) rope[x * kBf16Lanes] = from[f.rank + x] * kLog2E;
    }
  }
  products.begin(l.rest);
}

void LatentBf16Tile(const LatentTask& task, const LatentTileRows& tile,
                    const Bf16Products& products) noexcept {
  const Bf16Layout l = LayoutOf(task);
  const int64_t most = Seen(tile, task.rows - 1);
  if (most == 0) return;
  const LatentFormat& f = task.format;
  const char* data = static_cast<const char*>(tile.data);
  Bf16Scores w;
  w.blocks = (most + kBf16Block - 1) / kBf16Block;
  w.steps = l.rank / kBf16Depth;
  w.whole = f.rank / kBf16Depth;
  w.tail = reinterpret_cast<const char*>(l.tail);
  w.q = l.q;
  w.panels = task.rows * l.panels;
  w.scores = l.scores;
  w.rest = l.rest > 0;
  Bf16Prefetch prefetch;
  if (tile.next != nullptr) {
    const int64_t bytes = tile.next_count * f.row_bytes;
    prefetch.at = static_cast<const char*>(tile.next);
    prefetch.end = prefetch.at + bytes;
    prefetch.lines = bytes / 64 / (w.blocks * w.steps * ((w.panels + 1) / 2)) + 1;
  }
  w.prefetch = &prefetch;
  PadRows(task, l, data, most, w);
  products.scores(w);
  WidenRope(f, l, data, most);
  for (int64_t query = 0; query < task.rows; ++query) {
    const int64_t seen = Seen(tile, query);
    if (seen == 0) continue;
    for (int64_t group = 0; group < l.groups; ++group) {
      RopeScores(l, l.Group(query, group), seen);
      Softmax(l, query, group, seen);
      Shrink(task, l, query, group);
    }
  }
  Output(task, l, tile, prefetch, products);
}

void LatentBf16Finish(const LatentTask& task, const Bf16Products& products) noexcept {
  products.end();
  const Bf16Layout l = LayoutOf(task);
  for (int64_t query = 0; query < task.rows; ++query) {
    for (int64_t head = 0; head < task.heads; ++head) {
      const int64_t group = head / kBf16Lanes;
      const int64_t at = l.Group(query, group) * kBf16Lanes + head % kBf16Lanes;
      // The sum is 0 only for a row that saw no key; NaN must stay visible.
      const bool saw = !(l.sum[at] == 0.0f);
      WriteHead(Acc(task, l, query, group) + head % kBf16Lanes * kBf16Lanes, l.Heads(group),
                task.format.rank, saw ? 1.0f / l.sum[at] : 0.0f,
                task.out + query * task.out_row_stride + head * task.out_head_stride);
      if (task.lse != nullptr) {
        task.lse[query * task.lse_row_stride + head] =
            saw ? std::log2(l.sum[at]) + l.max[at] : kNone;
      }
    }
  }
}

}  // namespace mla

#else

namespace mla {

bool LatentBf16Takes(const LatentFormat&) noexcept { return false; }
int64_t LatentBf16ScratchFloats(const LatentFormat&, int64_t, int64_t) noexcept { return 0; }
void LatentBf16Begin(const LatentTask&, const Bf16Products&) noexcept {}
void LatentBf16Tile(const LatentTask&, const LatentTileRows&, const Bf16Products&) noexcept {}
void LatentBf16Finish(const LatentTask&, const Bf16Products&) noexcept {}

}  // namespace mla

#endif
