#include "attention/crossover.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "attention/paths.h"
#include "tensor/buffer.h"

namespace mla {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kWindow = 256;    // keys of the synthetic cache
constexpr int64_t kFewRows = 8;     // query rows of the up-projected passes
constexpr int64_t kManyRows = 128;  // no more than the window
constexpr int64_t kPartials = 4;

// Best of several passes, in nanoseconds: other work on the machine only adds.
template <typename Fn>
double Best(int passes, Fn fn) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < passes; ++i) {
    const auto start = Clock::now();
    fn();
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return best;
}

// Values without structure, all of order 1 / 16.
void Fill(FloatBuffer& buffer) {
  for (int64_t i = 0; i < buffer.size(); ++i) {
    buffer.data()[i] = static_cast<float>((i * 7919) % 61 - 30) / 256;
  }
}

class Measurement {
 public:
  Measurement(OpContext& context, const MlaGeometry& g, Elem type)
      : context_(context),
        g_(g),
        heads_(std::min(g.heads, kHeadUnit)),
        cache_(g, 1, CacheLayout::kLatent, type, kWindow),
        q_(kManyRows * heads_ * std::max(g.latent_dim(), g.qk_dim())),
        out_(kManyRows * heads_ * std::max(g.v_dim, g.kv_rank)),
        partials_((kPartials + 1) * heads_ * g.kv_rank),
        lse_(kPartials * heads_) {
    g_.heads = heads_;
    Fill(q_);
    Fill(partials_);
    Fill(lse_);
    cache_.Extend(kWindow);
    FloatBuffer row(g.latent_dim());
    Fill(row);
    for (int64_t i = 0; i < kWindow; ++i) cache_.StoreLatent(context.kernels, 0, i, row.data());
  }

  AttentionCosts Measure() {
    AttentionCosts costs;
    MeasureAbsorbed(costs);
    MeasureUpProjected(costs);
    return costs;
  }

 private:
  void MeasureAbsorbed(AttentionCosts& costs) {
    const auto heads = static_cast<double>(heads_);
    const int64_t rows = std::max<int64_t>(1, kTaskPairs / PaddedHeads(g_.heads));
    // Per pair that the kernel computes, padding included, as PreferAbsorbed counts them.
    const auto pairs = static_cast<double>(rows * PaddedHeads(heads_));
    costs.absorbed_pair = KeyTime(rows) / pairs;
    const double key = KeyTime(1);
    const double task = Best(20, [&] {
      const LatentTask t = Task(1);
      context_.kernels.latent_begin(t);
      context_.kernels.latent_finish(t);
    });
    costs.split.task_keys = task / key;
    const int32_t offsets[] = {0, kPartials};
    const double merge = Best(10, [&] {
      for (int64_t head = 0; head < heads_; ++head) {
        MergeArgs args;
        args.v_in = partials_.data();
        args.lse_in = lse_.data();
        args.indptr = offsets;
        args.v_out = out_.data();
        args.heads = heads_;
        args.dim = g_.kv_rank;
        args.head = head;
        context_.kernels.merge_states(args);
      }
    });
    costs.split.merge_keys = merge / kPartials / key;
    costs.split.region_keys = merge / heads / key;
  }

  LatentTask Task(int64_t rows) {
    LatentTask t;
    t.q = q_.data();
    t.q_row_stride = heads_ * g_.latent_dim();
    t.q_head_stride = g_.latent_dim();
    t.rows = rows;
    t.heads = heads_;
    t.format = cache_.latent_format(context_.units);
    t.scratch = context_.scratch.Get(0);
    t.out = out_.data();
    t.out_row_stride = heads_ * g_.kv_rank;
    t.out_head_stride = g_.kv_rank;
    return t;
  }

  // Of one key for all pairs of a task.
  double KeyTime(int64_t rows) {
    const LatentTask t = Task(rows);
    context_.kernels.latent_begin(t);
    const double time = Best(6, [&] {
      for (int64_t p = 0; p < kWindow; p += kLatentTileRows) {
        LatentTileRows tile;
        tile.data = cache_.LatentRow(0, p);
        tile.count = std::min(kLatentTileRows, kWindow - p);
        tile.visible = tile.count;
        context_.kernels.latent_tile(t, tile);
      }
    });
    context_.kernels.latent_finish(t);
    return time / kWindow;
  }

  // Two passes of the same window give the two unknowns, per key and per pair.
  void MeasureUpProjected(AttentionCosts& costs) {
    MlaGeometry g = g_;
    // One task per head: as many as give every thread the same number.
    const int threads = context_.pool.threads();
    g.heads = std::min<int64_t>(heads_, std::max(1, threads));
    const int64_t waves = (g.heads + threads - 1) / threads;
    Buffer weights(2 * g.fold_elements());
    uint16_t* w = weights.as<uint16_t>();
    for (int64_t i = 0; i < g.fold_elements(); ++i) {
      w[i] = static_cast<uint16_t>(0x3c00 + (i * 7919) % 512);  // bf16 of about 0.01 to 0.02
    }
    Linear kv_b;
    kv_b.weight = {w, g.kv_b_rows(), g.kv_rank, g.kv_rank, DType::kBf16};
    const LayerFold fold = BuildFold(g, kv_b);
    const auto time = [&](int64_t rows) {
      const AttentionItem item{&cache_, 0, rows, kWindow - rows};
      AttentionCall call;
      call.geometry = &g;
      call.fold = &fold;
      call.q = q_.data();
      call.out = out_.data();
      return Best(3, [&] { RunUpProjected(context_, call, item); }) / static_cast<double>(waves);
    };
    const auto pairs = [](int64_t rows) {
      return static_cast<double>(rows * (2 * kWindow + 1 - rows)) / 2;
    };
    const double few = time(kFewRows), many = time(kManyRows);
    const double per_pair = (many - few) / (pairs(kManyRows) - pairs(kFewRows));
    // A pair is not free, whatever the clock says.
    costs.up_pair = std::max(per_pair, 1e-3 * many / pairs(kManyRows));
    costs.up_key = std::max(few - costs.up_pair * pairs(kFewRows), 0.1 * few) / kWindow;
    // The same multiply-adds by the same kernels, for a row instead of a key.
    costs.absorbed_row = costs.up_key;
  }

  OpContext& context_;
  MlaGeometry g_;
  int64_t heads_;
  KvCache cache_;
  FloatBuffer q_, out_, partials_, lse_;
};

}  // namespace

AttentionCosts MeasureCosts(OpContext& context, const MlaGeometry& geometry, Elem type) {
  return Measurement(context, geometry, type).Measure();
}

}  // namespace mla
