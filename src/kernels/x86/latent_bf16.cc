// The shared part of the bf16 families: packing, the softmax, interleaving. One tile runs scores
// (products) for runs of 64 rows, softmax, and per piece of columns interleaving and output
// (products).
#include "kernels/x86/latent_bf16.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "kernels/x86/latent_bf16_layout.h"

#if defined(__x86_64__)

#include "kernels/x86/latent_bf16_softmax.h"

namespace mla {
namespace {

using latent_bf16::MaxScores;
using latent_bf16::ReplaceNotFinite;
using latent_bf16::Softmax;
using zmm::kNone;
using zmm::PackQuery;
using zmm::PackRopeQuery;
using zmm::RoundUp;
using zmm::Seen;
using zmm::SplitRopeRow;

Bf16Layout LayoutOf(const LatentTask& task) {
  return Bf16Layout(task.format, task.rows, task.heads, task.scratch);
}

// One group: both parts of its query in pairs of columns, then those of k_rope.
MLA_ZMM void PackQueries(const LatentTask& task, const Bf16Layout& l, int64_t row, int64_t group) {
  const LatentFormat& f = task.format;
  const float* from = task.q + row * task.q_row_stride + group * kBf16Lanes * task.q_head_stride;
  const int64_t step_floats = l.Parts(group) * kBf16TileFloats;
  float* to = l.Q(row, group);
  PackQuery(from, task.q_head_stride, l.Heads(group), f.rank, l.Shared(group), step_floats, to);
  to += l.rank / kBf16Depth * step_floats;
  PackRopeQuery(from + f.rank, task.q_head_stride, l.Heads(group), f.rope, l.Shared(group),
                step_floats, to);
}

// The last block and the last columns as copies with zeros around, where they are not whole.
void PadRows(const LatentFormat& f, const Bf16Layout& l, const char* data, int64_t rows,
             Bf16Scores& w) {
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
  if (w.tails == 0) return;
  char* to = reinterpret_cast<char*>(l.tail);
  std::memset(to, 0, static_cast<size_t>(w.blocks * kBf16Block * 2 * kBf16Depth));
  const int64_t column = w.whole * kBf16Depth;
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * 2 * kBf16Depth, data + i * f.row_bytes + 2 * column,
                static_cast<size_t>(2 * (f.rank - column)));
  }
}

// Rows of zeros up to whole blocks.
MLA_ZMM void SplitRope(const LatentFormat& f, const Bf16Layout& l, const char* data, int64_t rows) {
  const int64_t width = l.rope_steps * kBf16Pairs;
  for (int64_t i = 0; i < rows; ++i) {
    SplitRopeRow(data + i * f.row_bytes + f.rope_offset, f.rope, width, l.rope + i * width);
  }
  std::fill(l.rope + rows * width, l.rope + RoundUp(rows, kBf16Block) * width, 0.0f);
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

// Scores of one group for a run of rows that Pad and SplitRope have prepared.
void ScoreGroup(const Bf16Layout& l, int64_t query, int64_t group, int64_t parts, float* scores,
                const Bf16Products& products, Bf16Scores& w) {
  w.parts = std::min(parts, l.Parts(group));
  w.part_stride = l.Parts(group);
  w.q = l.Q(query, group);
  w.scores = scores;
  products.scores(w);
}

Bf16Scores PrepareRun(const LatentTask& task, const Bf16Layout& l, const LatentTileRows& tile,
                      int64_t row, Bf16Prefetch& prefetch) {
  const LatentFormat& f = task.format;
  const int64_t rows = std::min(Seen(tile, task.rows - 1) - row, Bf16Layout::kRunRows);
  const char* data = static_cast<const char*>(tile.data) + row * f.row_bytes;
  Bf16Scores w;
  w.blocks = RoundUp(rows, kBf16Block) / kBf16Block;
  w.steps = l.steps;
  w.whole = f.rank / kBf16Depth;
  w.tails = l.rank / kBf16Depth - w.whole;
  w.tail = reinterpret_cast<const char*>(l.tail);
  w.rope = reinterpret_cast<const char*>(l.rope);
  w.prefetch = &prefetch;
  PadRows(f, l, data, rows, w);
  SplitRope(f, l, data, rows);
  return w;
}

void ScoreRun(const LatentTask& task, const Bf16Layout& l, const LatentTileRows& tile, int64_t row,
              Bf16Prefetch& prefetch, const Bf16Products& products) {
  Bf16Scores w = PrepareRun(task, l, tile, row, prefetch);
  for (int64_t query = 0; query < task.rows; ++query) {
    if (Seen(tile, query) <= row) continue;
    for (int64_t group = 0; group < l.groups; ++group) {
      float* scores = l.s + l.Group(query, group) * Bf16Layout::kScoreFloats + row * kBf16Lanes;
      ScoreGroup(l, query, group, 2, scores, products, w);
    }
  }
}

// A group's scores to weights. The low part of a query times an infinite key is an infinity of
// either sign, or NaN: for a score that is not finite the high parts alone count.
MLA_ZMM void Weigh(const LatentTask& task, const Bf16Layout& l, const LatentTileRows& tile,
                   int64_t query, int64_t group, const Bf16Products& products) {
  const int64_t seen = Seen(tile, query);
  if (seen == 0) return;
  float* s = l.s + l.Group(query, group) * Bf16Layout::kScoreFloats;
  __m512 best;
  if (!MaxScores(s, seen, l.Shared(group), best)) {
    static_assert(kLatentTileRows / 2 * kBf16PieceBlocks >= kLatentTileRows);
    float* high = l.piece;  // not in use before the output
    Bf16Prefetch none;
    for (int64_t row = 0; row < seen; row += Bf16Layout::kRunRows) {
      Bf16Scores w = PrepareRun(task, l, tile, row, none);
      ScoreGroup(l, query, group, 1, high + row * kBf16Lanes, products, w);
    }
    best = ReplaceNotFinite(high, seen, s);
  }
  Softmax(l, query, group, seen, best);
  Shrink(task, l, query, group);
}

// Rows 2i and 2i + 1 side by side, columns in the order that the unpack instructions leave: of each
// 32, those with an even quarter of eight, 4 at a time, then the others. Zeros from `rows` on.
MLA_ZMM_INLINE void InterleavePair(__m512i a, __m512i b, float* to) {
  _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, b));
  _mm512_storeu_si512(to + kBf16TileFloats, _mm512_unpackhi_epi16(a, b));
}

MLA_ZMM void Interleave(const LatentFormat& f, const char* data, int64_t rows, int64_t column,
                        float* piece) {
  const int64_t left = f.rank - column;
  const __mmask32 mask = left >= 32 ? 0xffffffffu : (uint32_t{1} << left) - 1;
  const char* from = data + 2 * column;
  for (int64_t row = 0; row < rows; row += kBf16Depth) {
    if (left >= 32 && row + kBf16Depth <= rows) {
      for (int64_t i = 0; i < kBf16Pairs; ++i, from += 2 * f.row_bytes) {
        InterleavePair(_mm512_loadu_si512(from), _mm512_loadu_si512(from + f.row_bytes),
                       piece + i * kBf16Lanes);
      }
    } else {
      for (int64_t i = 0; i < kBf16Pairs; ++i, from += 2 * f.row_bytes) {
        const __mmask32 first = row + 2 * i < rows ? mask : 0;
        const __mmask32 second = row + 2 * i + 1 < rows ? mask : 0;
        InterleavePair(_mm512_maskz_loadu_epi16(first, from),
                       _mm512_maskz_loadu_epi16(second, from + f.row_bytes),
                       piece + i * kBf16Lanes);
      }
    }
    piece += kBf16PieceBlocks * kBf16TileFloats;
  }
}

void Output(const LatentTask& task, const Bf16Layout& l, const LatentTileRows& tile,
            const Bf16Products& products) {
  static_assert(kBf16PieceBlocks * kBf16Lanes == kBf16Depth);
  const char* data = static_cast<const char*>(tile.data);
  for (int64_t column = 0; column < l.rank; column += kBf16Depth) {
    int64_t rows = 0;
    for (int64_t query = 0; query < task.rows; ++query) {
      const int64_t seen = Seen(tile, query);
      if (seen == 0) continue;
      // Anew where this row sees more: even a weight of 0 must not meet what a row does not see.
      if (seen != rows) Interleave(task.format, data, seen, column, l.piece);
      rows = seen;
      for (int64_t group = 0; group < l.groups; ++group) {
        Bf16Output w;
        w.heads = l.Heads(group);
        w.acc = Acc(task, l, query, group) + column * w.heads;
        w.p = l.p + l.Group(query, group) * Bf16Layout::kScoreFloats / 2;
        w.rows = seen;
        w.piece = l.piece;
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
  std::fill(l.max, l.max + all * kBf16Lanes, kNone);
  std::fill(l.sum, l.sum + all * kBf16Lanes, 0.0f);
  std::fill(l.acc, l.acc + task.rows * task.heads * l.rank, 0.0f);
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t group = 0; group < l.groups; ++group) PackQueries(task, l, row, group);
  }
  products.begin(0);
}

void LatentBf16Tile(const LatentTask& task, const LatentTileRows& tile,
                    const Bf16Products& products) noexcept {
  const Bf16Layout l = LayoutOf(task);
  const int64_t most = Seen(tile, task.rows - 1);
  if (most == 0) return;
  Bf16Prefetch prefetch;
  if (tile.next != nullptr) {
    const int64_t bytes = tile.next_count * task.format.row_bytes;
    prefetch.at = static_cast<const char*>(tile.next);
    prefetch.end = prefetch.at + bytes;
    // All of it beside the scores: beside the interleaving, which itself waits for L2, it costs
    // more.
    prefetch.lines =
        bytes / 64 / (RoundUp(most, kBf16Block) / kBf16Block * l.steps * task.rows * l.groups) + 1;
  }
  for (int64_t row = 0; row < most; row += Bf16Layout::kRunRows) {
    ScoreRun(task, l, tile, row, prefetch, products);
  }
  for (int64_t query = 0; query < task.rows; ++query) {
    for (int64_t group = 0; group < l.groups; ++group) {
      Weigh(task, l, tile, query, group, products);
    }
  }
  if (l.rest > 0) products.begin(l.rest);
  Output(task, l, tile, products);
  if (l.rest > 0) products.begin(0);
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
