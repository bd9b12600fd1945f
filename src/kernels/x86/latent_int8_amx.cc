// The parts around the tile products of int8 latents. One tile runs scores (products) for runs of
// 64 rows, softmax, and per piece of columns interleaving, output (products), and the new sums into
// the state.
#include "kernels/x86/latent_int8_amx.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/latent_int8.h"

#if defined(__x86_64__)

#include "kernels/x86/latent_int8_layout.h"
#include "kernels/x86/latent_int8_softmax.h"
#include "kernels/x86/latent_int8_tiles.h"
#include "kernels/x86/latent_zmm.h"
#include "kernels/x86/real_tiles.h"

namespace mla {
namespace {

using latent_int8::RunScores;
using latent_int8::Softmax;
using zmm::FirstLanes;
using zmm::kNone;
using zmm::PackRopeQuery;
using zmm::RoundUp;
using zmm::Seen;
using zmm::SplitRopeRow;
using zmm::Transpose;

// Columns of one call of the output.
constexpr int64_t kPieceColumns = kInt8PieceBlocks * kBf16Lanes;

Int8AmxLayout LayoutOf(const LatentTask& task) {
  return Int8AmxLayout(task.format, task.rows, task.heads, task.scratch);
}

// What a head's query is multiplied by, in this order, to become whole numbers up to kInt8AmxMax;
// and what a sum of products of these with a row is multiplied by for a score in log2 units.
struct QueryScale {
  float first = 1, second = 0, back = 0;
};

MLA_ZMM QueryScale ScaleOf(const float* q, int64_t rank) {
  __m512 most = _mm512_setzero_ps();
  __mmask16 odd = 0;
  for (int64_t x = 0; x < rank; x += 16) {
    const __m512 magnitude = _mm512_abs_ps(_mm512_maskz_loadu_ps(FirstLanes(rank - x), q + x));
    odd |= _mm512_fpclass_ps_mask(magnitude, 0x99);
    most = _mm512_max_ps(most, magnitude);
  }
  const float largest = _mm512_reduce_max_ps(most);
  QueryScale scale;
  if (odd != 0) {
    scale.back = std::numeric_limits<float>::quiet_NaN();
  } else if (largest > 0) {
    // The inverse of a tiny number is no fp32 number.
    if (largest < 0x1p-60f) scale.first = 0x1p80f;
    scale.second = static_cast<float>(kInt8AmxMax) / (largest * scale.first);
    scale.back = static_cast<float>(static_cast<double>(largest) / kInt8AmxMax) * kLog2E;
  }
  return scale;
}

// 64 columns of one head, `count` of which there are, as bytes.
MLA_ZMM void QuantizeColumns(const float* q, int64_t count, const QueryScale& scale, char* high,
                             char* low) {
  for (int64_t x = 0; x < kInt8Depth; x += 16) {
    const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(FirstLanes(count - x), q + x),
                                   _mm512_set1_ps(scale.first));
    // Zeros where the scale is: what is not finite has no integer.
    const __mmask16 some = scale.second > 0 ? 0xffff : 0;
    const __m512i whole =
        _mm512_cvtps_epi32(_mm512_maskz_mul_ps(some, v, _mm512_set1_ps(scale.second)));
    const __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
    _mm512_mask_cvtepi32_storeu_epi8(high + x, 0xffff, upper);
    _mm512_mask_cvtepi32_storeu_epi8(low + x, 0xffff, whole);
  }
}

// One group: c_kv's part of its query as quads of columns, with a scale per head.
MLA_ZMM void PackQueries(const LatentTask& task, const Int8AmxLayout& l, int64_t row,
                         int64_t group) {
  const int64_t rank = task.format.rank;
  const int64_t heads = l.Heads(group);
  const bool shared = l.Shared(group);
  const float* from = task.q + row * task.q_row_stride + group * kBf16Lanes * task.q_head_stride;
  QueryScale scales[kBf16Lanes];
  float* back = l.q_scale + l.Group(row, group) * kBf16Lanes;
  for (int64_t i = 0; i < kBf16Lanes; ++i) {
    if (i < heads) scales[i] = ScaleOf(from + i * task.q_head_stride, rank);
    back[i] = scales[i].back;
  }
  char* to = l.Q(row, group);
  for (int64_t column = 0; column < l.rank; column += kInt8Depth) {
    alignas(64) char bytes[2][kBf16Lanes][kInt8Depth] = {};
    for (int64_t i = 0; i < heads; ++i) {
      char* low = shared ? bytes[0][kBf16Lanes / 2 + i] : bytes[1][i];
      QuantizeColumns(from + i * task.q_head_stride + column, rank - column, scales[i], bytes[0][i],
                      low);
    }
    for (int64_t part = 0; part < l.Parts(group); ++part) {
      __m512i quads[16];
      for (int i = 0; i < 16; ++i) quads[i] = _mm512_load_si512(bytes[part][i]);
      Transpose(quads);
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * 64, quads[i]);
      to += kInt8TileBytes;
    }
  }
  PackRopeQuery(from + rank, task.q_head_stride, heads, task.format.rope, shared,
                l.Parts(group) * kBf16TileFloats, l.QRope(row, group));
}

// Four rows side by side, 64 columns in the order that these instructions leave: the four tiles
// have, of each 16 columns, the even and the odd ones of the first eight, then those of the others.
MLA_ZMM_INLINE void StoreQuad(const char* from, int64_t row_bytes, char* to) {
  __m512i r[4];
  for (int i = 0; i < 4; ++i) r[i] = _mm512_loadu_si512(from + i * row_bytes);
  const __m512i ab_low = _mm512_unpacklo_epi8(r[0], r[1]);
  const __m512i ab_high = _mm512_unpackhi_epi8(r[0], r[1]);
  const __m512i cd_low = _mm512_unpacklo_epi8(r[2], r[3]);
  const __m512i cd_high = _mm512_unpackhi_epi8(r[2], r[3]);
  constexpr __mmask32 kOdd = 0xaaaaaaaau;
  constexpr int64_t kTile = Int8AmxLayout::kQuadTileBytes;
  const auto even = [&](__m512i ab, __m512i cd) MLA_ZMM {
    return _mm512_mask_mov_epi16(ab, kOdd, _mm512_slli_epi32(cd, 16));
  };
  const auto odd = [&](__m512i ab, __m512i cd) MLA_ZMM {
    return _mm512_mask_mov_epi16(_mm512_srli_epi32(ab, 16), kOdd, cd);
  };
  _mm512_storeu_si512(to, even(ab_low, cd_low));
  _mm512_storeu_si512(to + kTile, odd(ab_low, cd_low));
  _mm512_storeu_si512(to + 2 * kTile, even(ab_high, cd_high));
  _mm512_storeu_si512(to + 3 * kTile, odd(ab_high, cd_high));
}

// A run of rows that becomes what the products need, beside the first scores: quads of rows for the
// output, k_rope in two parts and the scales for what follows the scores of c_kv.
struct PrepareRows : Int8Beside {
  PrepareRows(const LatentFormat& format, const Int8AmxLayout& layout, const LatentTileRows& tile,
              int64_t first_row, int64_t row_count, Bf16Prefetch& next)
      : Int8Beside{Run},
        f(format),
        l(layout),
        data(static_cast<const char*>(tile.data) + first_row * format.row_bytes),
        c_kv(data),
        c_kv_bytes(format.row_bytes),
        first(first_row),
        rows(row_count),
        blocks(RoundUp(row_count, kBf16Block) / kBf16Block),
        prefetch(next) {}

  // With zeros up to whole blocks and whole steps.
  void CopyRows() {
    c_kv = l.rows_copy;
    c_kv_bytes = l.CopyBytes();
    for (int64_t i = 0; i < rows; ++i) {
      char* to = l.rows_copy + i * c_kv_bytes;
      std::memcpy(to, data + i * f.row_bytes, static_cast<size_t>(f.rank));
      std::memset(to + f.rank, 0, static_cast<size_t>(l.rank - f.rank));
    }
    for (int64_t i = rows; i < blocks * kBf16Block; ++i) {
      std::memset(l.rows_copy + i * c_kv_bytes, 0, static_cast<size_t>(l.rank));
    }
  }

  // Columns of the step, and its share of the rows' other parts.
  MLA_ZMM static void Run(const Int8Beside& self, int64_t step) {
    const auto& p = static_cast<const PrepareRows&>(self);
    const Int8AmxLayout& l = p.l;
    const int64_t column = step * kInt8Depth;
    char* quads = l.quads + p.first / kInt8Depth * l.StepBytes() + p.first % kInt8Depth / 4 * 64 +
                  column / kBf16Lanes * Int8AmxLayout::kQuadTileBytes;
    const char* from = p.c_kv + column;
    for (int64_t quad = 0; quad < p.blocks * kBf16Block / 4; ++quad, from += 4 * p.c_kv_bytes) {
      StoreQuad(from, p.c_kv_bytes, quads + quad * 64);
      p.prefetch.Next(p.prefetch.lines);
    }
    const int64_t all = p.blocks * kBf16Block;
    const int64_t width = l.rope_steps * kBf16Pairs;
    for (int64_t i = all * step / l.steps; i < all * (step + 1) / l.steps; ++i) {
      float* to = l.rope + i * width;
      if (i >= p.rows) {
        std::fill(to, to + width, 0.0f);
        continue;
      }
      const char* row = p.data + i * p.f.row_bytes;
      SplitRopeRow(row + p.f.rope_offset, p.f.rope, width, to);
      std::memcpy(l.row_scale + p.first + i, row + Int8ScaleOffset(p.f.rank), sizeof(float));
    }
  }

  const LatentFormat& f;
  const Int8AmxLayout& l;
  const char* data;  // of the run's first row
  const char* c_kv;
  int64_t c_kv_bytes;  // from one row of c_kv to the next
  int64_t first, rows, blocks;
  Bf16Prefetch& prefetch;
};

// Scores of a run of rows from `row` of the tile on.
void ScoreRun(const LatentTask& task, const Int8AmxLayout& l, const LatentTileRows& tile,
              int64_t row, Bf16Prefetch& prefetch, const Int8TileProducts& products) {
  const int64_t rows = std::min(Seen(tile, task.rows - 1) - row, Int8AmxLayout::kRunRows);
  PrepareRows prepare(task.format, l, tile, row, rows, prefetch);
  // Tile loads of rows that straddle lines take five times as long, which a copy is worth from the
  // second group of heads on.
  const bool whole = rows % kBf16Block == 0 && task.format.rank == l.rank;
  if (!whole || task.rows * l.groups > 1) prepare.CopyRows();
  Int8Scores w;
  w.blocks = prepare.blocks;
  w.steps = l.steps;
  w.rows = prepare.c_kv;
  w.row_bytes = prepare.c_kv_bytes;
  w.rope_steps = l.rope_steps;
  w.rope = reinterpret_cast<const char*>(l.rope);
  w.sums = l.sums;
  w.rope_sums = l.rope_sums;
  w.beside = &prepare;
  for (int64_t query = 0; query < task.rows; ++query) {
    const int64_t seen = std::min(Seen(tile, query) - row, rows);
    if (seen <= 0) continue;
    for (int64_t group = 0; group < l.groups; ++group) {
      w.parts = l.Parts(group);
      w.q = l.Q(query, group);
      w.q_rope = l.QRope(query, group);
      products.scores(w);
      w.beside = nullptr;
      RunScores(l, l.Group(query, group), row, seen, l.Shared(group));
    }
  }
}

float* Acc(const LatentTask& task, const Int8AmxLayout& l, int64_t query, int64_t group) {
  return l.acc + (query * task.heads + group * kBf16Lanes) * l.rank;
}

// acc = acc·shrink + factor·sums for one group and one piece of columns.
MLA_ZMM void AddSums(const Int8AmxLayout& l, int64_t query, int64_t group, float* acc) {
  const int64_t heads = l.Heads(group);
  const int64_t part = l.WeightRows(group) * kBf16Lanes;
  const int64_t at = l.Group(query, group) * kBf16Lanes;
  for (int64_t head = 0; head < heads; ++head) {
    const __m512 shrink = _mm512_set1_ps(l.shrink[at + head]);
    const __m512 factor = _mm512_set1_ps(l.factor[at + head]);
    for (int64_t block = 0; block < kInt8PieceBlocks; ++block) {
      const int32_t* sums = l.out_sums + block * 2 * part + head * kBf16Lanes;
      const __m512i both = _mm512_add_epi32(_mm512_slli_epi32(_mm512_loadu_si512(sums), 8),
                                            _mm512_loadu_si512(sums + part));
      float* to = acc + (block * heads + head) * kBf16Lanes;
      const __m512 kept = _mm512_mul_ps(_mm512_loadu_ps(to), shrink);
      _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_cvtepi32_ps(both), factor, kept));
    }
  }
}

void Output(const LatentTask& task, const Int8AmxLayout& l, const LatentTileRows& tile,
            Bf16Prefetch& prefetch, const Int8TileProducts& products) {
  for (int64_t column = 0; column < l.rank; column += kPieceColumns) {
    for (int64_t query = 0; query < task.rows; ++query) {
      const int64_t seen = Seen(tile, query);
      if (seen == 0) continue;
      for (int64_t group = 0; group < l.groups; ++group) {
        Int8Output w;
        w.heads = l.WeightRows(group);
        w.shared = l.Shared(group);
        w.p = l.p + l.Group(query, group) * Int8AmxLayout::kWeightBytes;
        w.steps = RoundUp(seen, kInt8Depth) / kInt8Depth;
        w.block_bytes = Int8AmxLayout::kQuadTileBytes;
        w.step_bytes = l.StepBytes();
        w.quads = l.quads + column / kBf16Lanes * w.block_bytes;
        w.sums = l.out_sums;
        w.prefetch = &prefetch;
        products.output(w);
        AddSums(l, query, group, Acc(task, l, query, group) + column * l.Heads(group));
      }
    }
  }
}

// One head's state to its output, columns back in order.
MLA_ZMM void WriteHead(const float* acc, int64_t heads, int64_t rank, float inverse, float* out) {
  const __m512 factor = _mm512_set1_ps(inverse);
  const int64_t block = heads * kBf16Lanes;
  for (int64_t x = 0; x < rank; x += kPieceColumns, acc += kInt8PieceBlocks * block) {
    __m512 a[4];
    for (int i = 0; i < 4; ++i) a[i] = _mm512_mul_ps(_mm512_loadu_ps(acc + i * block), factor);
    // Even and odd columns side by side, then 4 x 4 quarters, transposed.
    const __m512 u[4] = {_mm512_unpacklo_ps(a[0], a[1]), _mm512_unpackhi_ps(a[0], a[1]),
                         _mm512_unpacklo_ps(a[2], a[3]), _mm512_unpackhi_ps(a[2], a[3])};
    const __m512 low_01 = _mm512_shuffle_f32x4(u[0], u[1], 0x44);
    const __m512 low_23 = _mm512_shuffle_f32x4(u[2], u[3], 0x44);
    const __m512 high_01 = _mm512_shuffle_f32x4(u[0], u[1], 0xee);
    const __m512 high_23 = _mm512_shuffle_f32x4(u[2], u[3], 0xee);
    const __m512 columns[4] = {
        _mm512_shuffle_f32x4(low_01, low_23, 0x88), _mm512_shuffle_f32x4(low_01, low_23, 0xdd),
        _mm512_shuffle_f32x4(high_01, high_23, 0x88), _mm512_shuffle_f32x4(high_01, high_23, 0xdd)};
    for (int i = 0; i < 4; ++i) {
      _mm512_mask_storeu_ps(out + x + 16 * i, FirstLanes(rank - x - 16 * i), columns[i]);
    }
  }
}

}  // namespace

const Int8TileProducts* AmxInt8Products() noexcept {
  static constexpr Int8TileProducts kProducts = LatentInt8Tiles<RealTiles>::Products();
  return &kProducts;
}

int64_t LatentInt8AmxScratchFloats(const LatentFormat& format, int64_t rows,
                                   int64_t heads) noexcept {
  return Int8AmxLayout(format, rows, heads, nullptr).floats;
}

void LatentInt8AmxBegin(const LatentTask& task, const Int8TileProducts& products) noexcept {
  const Int8AmxLayout l = LayoutOf(task);
  const int64_t all = task.rows * l.groups;
  std::fill(l.max, l.max + all * kBf16Lanes, kNone);
  std::fill(l.sum, l.sum + all * kBf16Lanes, 0.0f);
  std::fill(l.acc, l.acc + task.rows * task.heads * l.rank, 0.0f);
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t group = 0; group < l.groups; ++group) PackQueries(task, l, row, group);
  }
  products.begin(0);
}

void LatentInt8AmxTile(const LatentTask& task, const LatentTileRows& tile,
                       const Int8TileProducts& products) noexcept {
  const Int8AmxLayout l = LayoutOf(task);
  const int64_t most = Seen(tile, task.rows - 1);
  if (most == 0) return;
  // Half of the next tile beside the scores, where rows become quads, half beside the output.
  Bf16Prefetch prefetch;
  const int64_t half = tile.next_count * task.format.row_bytes / 128;
  if (tile.next != nullptr) {
    prefetch.at = static_cast<const char*>(tile.next);
    prefetch.end = prefetch.at + 128 * half;
    prefetch.lines = half / (RoundUp(most, kBf16Block) / 4 * l.steps) + 1;
  }
  for (int64_t row = 0; row < most; row += Int8AmxLayout::kRunRows) {
    ScoreRun(task, l, tile, row, prefetch, products);
  }
  for (int64_t query = 0; query < task.rows; ++query) {
    const int64_t seen = Seen(tile, query);
    if (seen == 0) continue;
    for (int64_t group = 0; group < l.groups; ++group) Softmax(l, query, group, seen);
  }
  const int64_t output_steps =
      RoundUp(most, kInt8Depth) / kInt8Depth * (l.rank / kBf16Lanes / 2) * task.rows * l.groups;
  prefetch.lines = half / output_steps + 1;
  if (l.shared) products.begin(l.rest);
  Output(task, l, tile, prefetch, products);
  if (l.shared) products.begin(0);
}

void LatentInt8AmxFinish(const LatentTask& task, const Int8TileProducts& products) noexcept {
  products.end();
  const Int8AmxLayout l = LayoutOf(task);
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

const Int8TileProducts* AmxInt8Products() noexcept { return nullptr; }
int64_t LatentInt8AmxScratchFloats(const LatentFormat&, int64_t, int64_t) noexcept { return 0; }
void LatentInt8AmxBegin(const LatentTask&, const Int8TileProducts&) noexcept {}
void LatentInt8AmxTile(const LatentTask&, const LatentTileRows&, const Int8TileProducts&) noexcept {
}
void LatentInt8AmxFinish(const LatentTask&, const Int8TileProducts&) noexcept {}

}  // namespace mla

#endif
