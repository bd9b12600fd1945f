#include "layer_case.h"

namespace mla {
namespace {

constexpr int64_t kMostRows = 200;
constexpr double kEps = 1e-6;

StoredMatrix Make(Random& random, int64_t rows, int64_t cols, Elem type) {
  return StoredMatrix::Normal(random, std::max<int64_t>(rows, 1), std::max<int64_t>(cols, 1), type,
                              1 / std::sqrt(static_cast<double>(std::max<int64_t>(cols, 1))));
}

std::vector<double> Multiply(const StoredMatrix& w, const std::vector<double>& x) {
  std::vector<double> y;
  for (int64_t i = 0; i < w.rows(); ++i) {
    double sum = 0;
    for (int64_t k = 0; k < w.cols(); ++k) sum += w.At(i, k) * x[static_cast<size_t>(k)];
    y.push_back(sum);
  }
  return y;
}

void Normalise(double* x, const std::vector<float>& w) {
  double squares = 0;
  for (size_t i = 0; i < w.size(); ++i) squares += x[i] * x[i];
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(w.size()) + kEps);
  for (size_t i = 0; i < w.size(); ++i) x[i] *= w[i] * inverse;
}

void Rotate(double* x, int64_t r, int64_t position, double theta, RopeStyle style) {
  for (int64_t i = 0; i < r / 2; ++i) {
    const double angle = static_cast<double>(position) *
                         std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(r));
    double& a = style == RopeStyle::kInterleaved ? x[2 * i] : x[i];
    double& b = style == RopeStyle::kInterleaved ? x[2 * i + 1] : x[i + r / 2];
    const double first = a * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + a * std::sin(angle);
    a = first;
  }
}

}  // namespace

LayerCase::LayerCase(const MlaGeometry& g, int64_t hidden_size, RopeStyle rope_style, Elem type,
                     uint64_t seed)
    : geometry(g),
      hidden(hidden_size),
      style(rope_style),
      scale(1.3 / std::sqrt(static_cast<double>(g.qk_dim()))),
      random(seed),
      q_proj(Make(random, g.heads * g.qk_dim(), hidden, type)),
      q_a(Make(random, g.q_rank, hidden, type)),
      q_b(Make(random, g.heads * g.qk_dim(), g.q_rank, type)),
      kv_a(Make(random, g.latent_dim(), hidden, type)),
      kv_b(Make(random, g.kv_b_rows(), g.kv_rank, type)),
      o(Make(random, hidden, g.heads * g.v_dim, type)),
      q_a_norm(random.Normals(g.q_rank)),
      kv_a_norm(random.Normals(g.kv_rank)) {
  rope.style = style;
}

MlaWeights LayerCase::Weights() const {
  MlaWeights w;
  if (geometry.q_rank == 0) {
    w.q_proj.weight = ViewOf(q_proj);
  } else {
    w.q_a.weight = ViewOf(q_a);
    w.q_a_norm = q_a_norm.data();
    w.q_b.weight = ViewOf(q_b);
  }
  w.kv_a.weight = ViewOf(kv_a);
  w.kv_a_norm = kv_a_norm.data();
  w.kv_b.weight = ViewOf(kv_b);
  w.o.weight = ViewOf(o);
  return w;
}

std::vector<double> LayerCase::Want(const std::vector<float>& x) const {
  const MlaGeometry& g = geometry;
  const int64_t rows = static_cast<int64_t>(x.size()) / hidden;
  std::vector<float> q, latent;
  for (int64_t p = 0; p < rows; ++p) {
    const std::vector<double> row(x.begin() + p * hidden, x.begin() + (p + 1) * hidden);
    std::vector<double> query;
    if (g.q_rank == 0) {
      query = Multiply(q_proj, row);
    } else {
      std::vector<double> inner = Multiply(q_a, row);
      Normalise(inner.data(), q_a_norm);
      query = Multiply(q_b, inner);
    }
    for (int64_t h = 0; h < g.heads; ++h) {
      Rotate(query.data() + h * g.qk_dim() + g.nope, g.rope, p, rope.theta, style);
    }
    for (const double v : query) q.push_back(static_cast<float>(v * scale));
    std::vector<double> kv = Multiply(kv_a, row);
    Normalise(kv.data(), kv_a_norm);
    Rotate(kv.data() + g.kv_rank, g.rope, p, rope.theta, style);
    latent.insert(latent.end(), kv.begin(), kv.end());
  }
  const auto out = OracleAttention(g, OracleUpProject(g, kv_b.values(), latent), q, 0).out;
  std::vector<double> y;
  for (int64_t p = 0; p < rows; ++p) {
    const int64_t width = g.heads * g.v_dim;
    const auto part = Multiply(o, {out.begin() + p * width, out.begin() + (p + 1) * width});
    y.insert(y.end(), part.begin(), part.end());
  }
  return y;
}

LayerRunner::LayerRunner(const LayerCase& c, const Way& way, Elem cache_type, int threads)
    : case_(c),
      way_(way),
      harness_(threads, AnyScratchFloats(c.geometry, way.layout)),
      buffers_(c.geometry, way.layout, kMostRows, 1),
      cache_(c.geometry, 1, way.layout, cache_type, 4096) {}

std::vector<float> LayerRunner::Feed(const std::vector<float>& x) {
  const int64_t rows = static_cast<int64_t>(x.size()) / case_.hidden;
  const int64_t first = cache_.offset();
  cache_.Extend(rows);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < rows; ++i) positions.push_back(first + i);
  const auto frequencies = RopeFrequencies(case_.rope, case_.geometry.rope);
  std::vector<float> cos(positions.size() * frequencies.size()), sin(cos.size());
  RopeRows(case_.rope, frequencies, positions, cos.data(), sin.data());
  const std::vector<AttentionItem> items = {{&cache_, 0, rows, first}};
  MlaStep step;
  step.geometry = &case_.geometry;
  step.rope_style = case_.style;
  step.softmax_scale = case_.scale;
  step.lora_norm_eps = kEps;
  step.cos = cos.data();
  step.sin = sin.data();
  step.items = items;
  step.rows = rows;
  step.policy = way_.mode;
  step.stats = &stats;
  const MlaWeights weights = case_.Weights();
  const LayerFold fold = BuildFold(case_.geometry, weights.kv_b);
  std::vector<float> residual(x.size(), 0);
  MlaAttention(harness_.context, step, weights, fold, 0, buffers_, x.data(), residual.data());
  return residual;
}

}  // namespace mla
