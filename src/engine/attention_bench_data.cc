#include "engine/attention_bench_data.h"

#include <algorithm>
#include <cmath>

#include "attention/attention.h"
#include "base/check.h"
#include "base/float16.h"

namespace mla {
namespace {

constexpr int64_t kFillRows = 256;
constexpr uint64_t kWeightStream = 1;
constexpr uint64_t kLatentStream = 2;
constexpr uint64_t kQueryStream = 3;
constexpr uint64_t kStepStream = 4;

// SplitMix64: streams with neighbouring seeds are independent, so that any row can be made alone.
class Random {
 public:
  Random(uint64_t stream, int64_t row)
      : state_(Mix(stream * 0x9e3779b97f4a7c15u) ^ Mix(static_cast<uint64_t>(row))) {}

  // Uniform with mean 0 and variance 1.
  float Next() {
    state_ += 0x9e3779b97f4a7c15u;
    const auto bits = static_cast<int32_t>(Mix(state_) >> 32);
    return static_cast<float>(bits) * (0x1p-31f * 1.7320508f);
  }

 private:
  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

// rows x width random numbers of standard deviation `scale`.
void FillRandom(OpContext& op, uint64_t stream, int64_t first_row, int64_t rows, int64_t width,
                float scale, float* out) {
  op.pool.Run(rows, [&](int64_t row, int) {
    Random random(stream, first_row + row);
    for (int64_t i = 0; i < width; ++i) out[row * width + i] = scale * random.Next();
  });
}

}  // namespace

BenchMemory PlanBenchMemory(const MlaGeometry& g, Elem type, int64_t batch, int64_t context,
                            int threads) {
  const auto mul = [](int64_t a, int64_t b) { return CheckedMul(a, b, "bytes of the bench"); };
  const auto add = [](int64_t a, int64_t b) { return CheckedAdd(a, b, "bytes of the bench"); };
  constexpr int64_t kSegment = KvCache::kSegmentTokens;
  const int64_t tokens = mul(add(context, kSegment) / kSegment * kSegment, batch);
  BenchMemory m;
  m.decompressed = mul(tokens, DecompressedBytesPerToken(g, type));
  m.latent = mul(tokens, LatentBytesPerToken(g, type));
  // The workspace's rows and partial states, the step inputs, the outputs of four arms and the
  // up-projected rows, per sequence.
  const int64_t heads_floats =
      add(mul(g.heads, 2 * g.kv_rank + g.rope + kBenchInputs * g.qk_dim() + 4 * g.v_dim),
          mul(kMaxSplitChunks * g.heads, g.kv_rank + 1));
  const int64_t floats = add(heads_floats, kBenchInputs * g.latent_dim() + g.kv_b_rows());
  const int64_t scratch = std::max(AttentionScratchFloats(g, CacheLayout::kLatent, type, {}),
                                   AttentionScratchFloats(g, CacheLayout::kDecompressed, type, {}));
  m.rest = add(mul(4, mul(floats, batch)), mul(4 * threads, scratch));
  m.rest = add(m.rest, mul(2, g.fold_elements()));
  m.rest = add(m.rest, mul(4 * kFillRows, g.kv_b_rows() + g.latent_dim()));
  m.total = add(add(m.decompressed, m.latent), m.rest);
  return m;
}

BenchData::BenchData(OpContext& op, const MlaGeometry& g, Elem type, int64_t batch, int64_t context)
    : geometry(g),
      weights(CheckedMul(2, g.fold_elements(), "kv_b_proj")),
      kv_(std::max(batch, kFillRows) * g.kv_b_rows()) {
  const float weight_scale = 1 / std::sqrt(static_cast<float>(g.kv_rank));
  uint16_t* w = weights.as<uint16_t>();
  op.pool.Run(g.kv_b_rows(), [&](int64_t row, int) {
    Random random(kWeightStream, row);
    for (int64_t i = 0; i < g.kv_rank; ++i) {
      w[row * g.kv_rank + i] = FloatToBf16(weight_scale * random.Next());
    }
  });
  kv_b.weight = {w, g.kv_b_rows(), g.kv_rank, g.kv_rank, DType::kBf16};
  fold = BuildFold(g, kv_b);
  Require(fold.folded(), "the bench's kv_b_proj cannot be folded");

  const float query_scale = 2 / std::sqrt(static_cast<float>(g.qk_dim()));
  for (int64_t i = 0; i < kBenchInputs; ++i) {
    BenchInput input{FloatBuffer(batch * g.heads * g.qk_dim()),
                     FloatBuffer(batch * g.latent_dim())};
    FillRandom(op, kQueryStream, i * batch, batch, g.heads * g.qk_dim(), query_scale,
               input.q.data());
    FillRandom(op, kStepStream, i * batch, batch, g.latent_dim(), 1, input.latent.data());
    inputs.push_back(std::move(input));
  }
  for (int64_t sequence = 0; sequence < batch; ++sequence) {
    latent.emplace_back(g, 1, CacheLayout::kLatent, type, context + 1);
    decompressed.emplace_back(g, 1, CacheLayout::kDecompressed, DecompressedElem(type),
                              context + 1);
    latent.back().Extend(context + 1);
    decompressed.back().Extend(context + 1);
    FillCache(op, sequence, context);
  }
}

void BenchData::FillCache(OpContext& op, int64_t sequence, int64_t context) {
  const FloatBuffer rows(std::min(kFillRows, context) * geometry.latent_dim());
  for (int64_t first = 0; first < context; first += kFillRows) {
    const int64_t count = std::min(kFillRows, context - first);
    FillRandom(op, kLatentStream, sequence * context + first, count, geometry.latent_dim(), 1,
               rows.data());
    const size_t s = static_cast<size_t>(sequence);
    StoreLatent(op, rows.data(), count, [&](int64_t i) { return Target{&latent[s], first + i}; });
    StoreDecompressed(op, rows.data(), count, [&](int64_t i) {
      return Target{&decompressed[s], first + i};
    });
  }
}

template <typename TargetFn>
void BenchData::StoreLatent(OpContext& op, const float* source, int64_t rows, TargetFn target) {
  op.pool.Run(rows, [&](int64_t row, int) {
    const Target to = target(row);
    to.cache->StoreLatent(op.kernels, 0, to.position, source + row * geometry.latent_dim());
  });
}

template <typename TargetFn>
void BenchData::StoreDecompressed(OpContext& op, const float* source, int64_t rows,
                                  TargetFn target) {
  const MlaGeometry& g = geometry;
  const LinearOutput up[] = {{&kv_b, kv_.data(), g.kv_b_rows()}};
  ApplyLinear(op, source, g.latent_dim(), rows, up);
  op.pool.Run(rows, [&](int64_t row, int) {
    const Target to = target(row);
    const float* rope = source + row * g.latent_dim() + g.kv_rank;
    for (int64_t h = 0; h < g.heads; ++h) {
      const float* kv = kv_.data() + row * g.kv_b_rows() + h * (g.nope + g.v_dim);
      to.cache->StoreHead(op.kernels, 0, h, to.position, kv, rope, kv + g.nope);
    }
  });
}

void BenchData::AppendLatent(OpContext& op, const BenchInput& input, int64_t batch,
                             int64_t position) {
  StoreLatent(op, input.latent.data(), batch, [&](int64_t row) {
    return Target{&latent[static_cast<size_t>(row)], position};
  });
}

void BenchData::AppendDecompressed(OpContext& op, const BenchInput& input, int64_t batch,
                                   int64_t position) {
  StoreDecompressed(op, input.latent.data(), batch, [&](int64_t row) {
    return Target{&decompressed[static_cast<size_t>(row)], position};
  });
}

}  // namespace mla
