#include "layers/mlp.h"

#include <cmath>

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/op_harness.h"

namespace mla {
namespace {

// One feed-forward block with its weights.
struct Block {
  Block(Random& random, int64_t width, int64_t hidden, Elem type)
      : gate(StoredMatrix::Normal(random, width, hidden, type, 0.3, 1)),
        up(StoredMatrix::Normal(random, width, hidden, type, 0.3)),
        down(StoredMatrix::Normal(random, hidden, width, type, 0.3, 2)) {}
  MlpWeights Views() const { return {ViewOf(gate), ViewOf(up), ViewOf(down)}; }

  // y += weight · down(silu(gate x) · up x), in double.
  void Add(const float* x, double weight, double* y) const {
    std::vector<double> inner;
    for (int64_t i = 0; i < gate.rows(); ++i) {
      double g = 0, u = 0;
      for (int64_t k = 0; k < gate.cols(); ++k) {
        g += gate.At(i, k) * x[k];
        u += up.At(i, k) * x[k];
      }
      inner.push_back(g / (1 + std::exp(-g)) * u);
    }
    for (int64_t j = 0; j < down.rows(); ++j) {
      double sum = 0;
      for (int64_t i = 0; i < down.cols(); ++i)
        sum += down.At(j, i) * inner[static_cast<size_t>(i)];
      y[j] += weight * sum;
    }
  }
  StoredMatrix gate, up, down;
};

TEST(Mlp, MatchesTheFormula) {
  for (const Elem type : kAllElems) {
    for (const auto& [width, hidden] : {std::pair<int64_t, int64_t>{5, 3}, {300, 70}, {64, 129}}) {
      for (const int64_t rows : {1, 6, 70}) {
        Random random(1);
        const Block block(random, width, hidden, type);
        const auto x = random.Normals(rows * hidden);
        const auto before = random.Normals(rows * hidden);
        std::vector<double> want(before.begin(), before.end());
        for (int64_t i = 0; i < rows; ++i) {
          block.Add(x.data() + i * hidden, 1, want.data() + i * hidden);
        }
        std::vector<float> first;
        for (const int threads : {1, 3}) {
          OpHarness harness(threads, MlpScratchFloats(RouterConfig()));
          MlpBuffers buffers(RouterConfig(), width, 0, rows);
          std::vector<float> y = before;
          Mlp(harness.context, block.Views(), buffers, x.data(), rows, hidden, y.data());
          EXPECT_LT(RelativeError(y, want), 5e-6) << width << " " << hidden;
          if (threads == 1) first = y;
          EXPECT_TRUE(SameBits(y, first));
        }
      }
    }
  }
}

struct Mixture {
  Mixture(const RouterConfig& c, int64_t expert_width, int64_t shared_width, int64_t hidden_size,
          Elem type, uint64_t seed)
      : config(c),
        width(expert_width),
        shared(shared_width),
        hidden(hidden_size),
        random(seed),
        router(StoredMatrix::Normal(random, c.experts, hidden, Elem::kF32, 0.5)),
        bias(random.Normals(c.experts, 0.1)) {
    for (int64_t e = 0; e < c.experts; ++e) blocks.emplace_back(random, width, hidden, type);
    if (shared > 0) blocks.emplace_back(random, shared, hidden, type);
    weights.router = ViewOf(router);
    weights.router_bias = c.has_bias ? bias.data() : nullptr;
    for (int64_t e = 0; e < c.experts; ++e) {
      weights.experts.push_back(blocks[static_cast<size_t>(e)].Views());
    }
    if (shared > 0) weights.shared = blocks.back().Views();
  }

  std::vector<float> Run(const std::vector<float>& x, int threads, MlpBuffers& buffers) const {
    const int64_t rows = static_cast<int64_t>(x.size()) / hidden;
    OpHarness harness(threads, MlpScratchFloats(config));
    std::vector<float> y(x.size(), 0.5f);
    Moe(harness.context, config, weights, buffers, x.data(), rows, hidden, y.data());
    return y;
  }
  std::vector<float> Run(const std::vector<float>& x, int threads) const {
    MlpBuffers buffers(config, shared, width, static_cast<int64_t>(x.size()) / hidden);
    return Run(x, threads, buffers);
  }
  // Token by token, expert by expert.
  std::vector<double> Want(const std::vector<float>& x) const {
    std::vector<double> y(x.size(), 0.5);
    for (size_t at = 0; at < x.size(); at += static_cast<size_t>(hidden)) {
      std::vector<float> logits;
      for (int64_t e = 0; e < config.experts; ++e) {
        double sum = 0;
        for (int64_t k = 0; k < hidden; ++k)
          sum += router.At(e, k) * x[at + static_cast<size_t>(k)];
        logits.push_back(static_cast<float>(sum));
      }
      std::vector<int32_t> ids(static_cast<size_t>(config.experts_per_token));
      std::vector<float> w(ids.size()), scratch(static_cast<size_t>(3 * config.experts));
      RouteToken(config, logits.data(), weights.router_bias, ids.data(), w.data(), scratch.data());
      for (size_t i = 0; i < ids.size(); ++i) {
        blocks[static_cast<size_t>(ids[i])].Add(x.data() + at, w[i], y.data() + at);
      }
      if (shared > 0) blocks.back().Add(x.data() + at, 1, y.data() + at);
    }
    return y;
  }

  RouterConfig config;
  int64_t width, shared, hidden;
  Random random;
  StoredMatrix router;
  std::vector<float> bias;
  std::vector<Block> blocks;
  MoeWeights weights;
};

RouterConfig Config(int64_t experts, int64_t k, bool sigmoid) {
  RouterConfig c;
  c.experts = experts;
  c.experts_per_token = k;
  if (sigmoid) {
    c.score = RouterScore::kSigmoid;
    c.group_score = GroupScore::kTop2Sum;
    c.masked = MaskedGroups::kMinusInfinity;
    c.groups = 4;
    c.groups_kept = 2;
    c.has_bias = true;
    c.normalize = true;
    c.scaling = 2.5;
  }
  return c;
}

TEST(Moe, MatchesTokenByToken) {
  for (const Elem type : kAllElems) {
    for (const bool sigmoid : {false, true}) {
      for (const int64_t shared : {0, 37}) {
        const Mixture m(Config(16, 3, sigmoid), 21, shared, 75, type, 2);
        for (const int64_t rows : {1, 2, 9, 130}) {
          Random random(3);
          const auto x = random.Normals(rows * 75);
          EXPECT_LT(RelativeError(m.Run(x, 2), m.Want(x)), 1e-5)
              << "rows " << rows << " shared " << shared << " sigmoid " << sigmoid;
        }
      }
    }
  }
}

TEST(Moe, ThreadsAndNeighboursDoNotMatter) {
  const Mixture m(Config(8, 2, true), 90, 40, 150, Elem::kBf16, 4);
  Random random(5);
  const auto x = random.Normals(70 * 150);
  const auto one = m.Run(x, 1);
  for (const int threads : {2, 3, 7}) EXPECT_TRUE(SameBits(m.Run(x, threads), one)) << threads;
  for (const int64_t row : {0, 1, 33, 69}) {
    const std::vector<float> alone(x.begin() + row * 150, x.begin() + (row + 1) * 150);
    EXPECT_TRUE(SameBits(m.Run(alone, 2), {one.begin() + row * 150, one.begin() + (row + 1) * 150}))
        << "row " << row;
  }
}

// More tokens on one expert than a task holds at once; the others idle.
TEST(Moe, AllTokensOnOneExpert) {
  const Mixture m(Config(4, 1, false), 16, 0, 20, Elem::kF32, 6);
  Random random(7);
  const auto token = random.Normals(20);
  std::vector<float> x;
  for (int i = 0; i < 200; ++i) x.insert(x.end(), token.begin(), token.end());
  const auto got = m.Run(x, 3);
  EXPECT_LT(RelativeError(got, m.Want(x)), 1e-5);
}

TEST(Moe, BuffersCanBeUsedAgain) {
  const Mixture m(Config(16, 3, true), 21, 37, 75, Elem::kF32, 8);
  MlpBuffers buffers(m.config, m.shared, m.width, 40);
  const int64_t bytes = buffers.bytes();
  EXPECT_GT(bytes, 0);
  Random random(9);
  const auto many = random.Normals(40 * 75);
  const auto few = random.Normals(3 * 75);
  const auto want = m.Run(few, 2);
  m.Run(many, 2, buffers);
  EXPECT_TRUE(SameBits(m.Run(few, 2, buffers), want));
  EXPECT_EQ(buffers.bytes(), bytes);
}

// One broken token spoils its own row and no other.
TEST(Moe, ANaNTokenStaysInItsRow) {
  const Mixture m(Config(16, 3, true), 21, 37, 75, Elem::kBf16, 10);
  Random random(11);
  auto x = random.Normals(9 * 75);
  const auto clean = m.Run(x, 2);
  x[4 * 75 + 10] = kNaN;
  const auto got = m.Run(x, 2);
  for (int64_t row = 0; row < 9; ++row) {
    const std::vector<float> part(got.begin() + row * 75, got.begin() + (row + 1) * 75);
    if (row == 4) {
      EXPECT_TRUE(HasNaN(part));
    } else {
      EXPECT_TRUE(SameBits(part, {clean.begin() + row * 75, clean.begin() + (row + 1) * 75}));
    }
  }
}

}  // namespace
}  // namespace mla
