#include "layers/mlp.h"

#include <algorithm>
#include <tuple>

#include "ops/linear.h"

namespace mla {
namespace {

// Rows of a product that a task holds in scratch.
constexpr int64_t kScratchRows = 64;
// Output columns per task of the down products.
constexpr int64_t kDownColumns = 64;

// gate and up products of weight rows [begin, begin + count) with SwiGLU applied, for `rows` rows
// of x; row i is x row tokens[i], or row i if tokens is null. Result in gate [rows, I]; the up
// product lives in thread scratch, some rows at a time.
void GateUp(const KernelTable& kernels, const MlpWeights& w, const float* x, int64_t hidden,
            const int32_t* tokens, int64_t rows, int64_t begin, int64_t count, float* gate,
            float* scratch) {
  const int64_t width = w.gate.rows;
  for (int64_t first = 0; first < rows; first += kScratchRows) {
    const int64_t part = std::min(kScratchRows, rows - first);
    float* g = gate + first * width + begin;
    for (const auto& [weight, y, stride] :
         {std::tuple{&w.gate, g, width}, std::tuple{&w.up, scratch, count}}) {
      const float* source = tokens != nullptr ? x : x + first * hidden;
      MatmulArgs args = ProductNt(source, hidden, part, weight->Rows(begin, count), y, stride);
      args.a_rows = tokens != nullptr ? tokens + first : nullptr;
      kernels.matmul_nt(args);
    }
    for (int64_t i = 0; i < part; ++i) {
      kernels.swiglu(g + i * width, scratch + i * count, g + i * width, count);
    }
  }
}

void RouteRows(OpContext& context, const RouterConfig& router, const MoeWeights& weights,
               MlpBuffers& b, const float* x, int64_t rows, int64_t hidden) {
  const Linear gate{weights.router, nullptr};
  const LinearOutput logits[] = {{&gate, b.logits.data(), router.experts}};
  ApplyLinear(context, x, hidden, rows, logits);
  const int64_t k = router.experts_per_token;
  context.pool.Run(rows, [&](int64_t row, int thread) {
    RouteToken(router, b.logits.data() + row * router.experts, weights.router_bias,
               b.ids.data() + row * k, b.weights.data() + row * k, context.scratch.Get(thread));
  });
  // Counting sort of the (token, slot) pairs by expert; tokens stay ascending within one.
  std::fill(b.first.begin(), b.first.end(), 0);
  for (int64_t i = 0; i < rows * k; ++i)
    ++b.first[static_cast<size_t>(b.ids[static_cast<size_t>(i)]) + 1];
  b.active.clear();
  for (size_t e = 0; e + 1 < b.first.size(); ++e) {
    if (b.first[e + 1] > 0) b.active.push_back(static_cast<int32_t>(e));
    b.first[e + 1] += b.first[e];
  }
  for (int64_t i = 0; i < rows * k; ++i) {
    const size_t at =
        static_cast<size_t>(b.first[static_cast<size_t>(b.ids[static_cast<size_t>(i)])]++);
    b.tokens[at] = static_cast<int32_t>(i / k);
    b.row_weight[at] = b.weights[i];
  }
  // Every first[e] has moved to the start of e + 1.
  for (size_t e = b.first.size() - 1; e > 0; --e) b.first[e] = b.first[e - 1];
  b.first[0] = 0;
}

}  // namespace

MlpBuffers::MlpBuffers(const RouterConfig& router, int64_t dense_width, int64_t expert_width,
                       int64_t max_rows)
    : gate(max_rows * dense_width) {
  if (router.experts == 0) return;
  const int64_t pairs = max_rows * router.experts_per_token;
  logits = FloatBuffer(max_rows * router.experts);
  expert_gate = FloatBuffer(pairs * expert_width);
  weights = FloatBuffer(pairs);
  ids.resize(static_cast<size_t>(pairs));
  tokens.resize(static_cast<size_t>(pairs));
  row_weight.resize(static_cast<size_t>(pairs));
  first.resize(static_cast<size_t>(router.experts) + 1);
  active.reserve(static_cast<size_t>(router.experts));
}

int64_t MlpBuffers::bytes() const {
  return 4 * (gate.size() + logits.size() + expert_gate.size() + weights.size() +
              static_cast<int64_t>(ids.size() + tokens.size() + row_weight.size()));
}

int64_t MlpScratchFloats(const RouterConfig& router) {
  return std::max(3 * router.experts, kScratchRows * std::max(kDownColumns, kMostLinearBlockRows));
}

void Mlp(OpContext& context, const MlpWeights& weights, MlpBuffers& buffers, const float* x,
         int64_t rows, int64_t hidden, float* residual) {
  const int64_t width = weights.gate.rows;
  const int64_t block = LinearBlockRows(weights.gate);
  context.pool.Run((width + block - 1) / block, [&](int64_t task, int thread) {
    const int64_t begin = task * block;
    GateUp(context.kernels, weights, x, hidden, nullptr, rows, begin,
           std::min(block, width - begin), buffers.gate.data(), context.scratch.Get(thread));
  });
  const Linear down{weights.down, nullptr};
  const LinearOutput out[] = {{&down, residual, hidden}};
  ApplyLinear(context, buffers.gate.data(), width, rows, out, true);
}

void Moe(OpContext& context, const RouterConfig& router, const MoeWeights& weights, MlpBuffers& b,
         const float* x, int64_t rows, int64_t hidden, float* residual) {
  RouteRows(context, router, weights, b, x, rows, hidden);
  const KernelTable& kernels = context.kernels;
  const int64_t width = weights.experts[0].gate.rows;
  const int64_t shared_width = weights.shared.gate.rows;  // 0 without shared experts

  // Region 1: gate, up and SwiGLU of every active expert and of the shared one.
  const int64_t block = LinearBlockRows(weights.experts[0].gate);
  const int64_t per_expert = (width + block - 1) / block;
  const int64_t routed_tasks = per_expert * static_cast<int64_t>(b.active.size());
  const int64_t shared_tasks = (shared_width + block - 1) / block;
  context.pool.Run(routed_tasks + shared_tasks, [&](int64_t task, int thread) {
    float* scratch = context.scratch.Get(thread);
    if (task >= routed_tasks) {
      const int64_t begin = (task - routed_tasks) * block;
      GateUp(kernels, weights.shared, x, hidden, nullptr, rows, begin,
             std::min(block, shared_width - begin), b.gate.data(), scratch);
      return;
    }
    const size_t e = static_cast<size_t>(b.active[static_cast<size_t>(task / per_expert)]);
    const int64_t first = b.first[e];
    const int64_t begin = task % per_expert * block;
    GateUp(kernels, weights.experts[e], x, hidden, b.tokens.data() + first, b.first[e + 1] - first,
           begin, std::min(block, width - begin), b.expert_gate.data() + first * width, scratch);
  });

  // Region 2: each task owns some output columns and walks the experts in order, so that no two
  // tasks write one element and every sum has one order.
  context.pool.Run((hidden + kDownColumns - 1) / kDownColumns, [&](int64_t task, int thread) {
    const int64_t begin = task * kDownColumns;
    const int64_t count = std::min(kDownColumns, hidden - begin);
    float* y = context.scratch.Get(thread);
    for (const int32_t expert : b.active) {
      const size_t e = static_cast<size_t>(expert);
      for (int64_t i = b.first[e]; i < b.first[e + 1]; i += kScratchRows) {
        const int64_t part = std::min<int64_t>(kScratchRows, b.first[e + 1] - i);
        kernels.matmul_nt(ProductNt(b.expert_gate.data() + i * width, width, part,
                                    weights.experts[e].down.Rows(begin, count), y, count));
        for (int64_t j = 0; j < part; ++j) {
          const size_t at = static_cast<size_t>(i + j);
          kernels.axpy(b.row_weight[at], y + j * count, residual + b.tokens[at] * hidden + begin,
                       count);
        }
      }
    }
    if (shared_width > 0) {
      MatmulArgs args = ProductNt(b.gate.data(), shared_width, rows,
                                  weights.shared.down.Rows(begin, count), residual + begin, hidden);
      args.accumulate = true;
      kernels.matmul_nt(args);
    }
  });
}

}  // namespace mla
