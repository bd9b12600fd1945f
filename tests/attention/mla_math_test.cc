// Answers of an independent implementation in double (tests/data/mla_math).
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "attention/merge.h"
#include "support/attention_case.h"
#include "support/tensor_file.h"

namespace mla {
namespace {

const std::string kDirectory = std::string(MLA_TEST_DATA) + "/mla_math/";

const TensorFile& File() {
  static const TensorFile file(kDirectory + "mla_math.safetensors");
  return file;
}

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  const auto json = nlohmann::json::parse(ReadWholeFile(kDirectory + "mla_math.json"));
  for (const auto& [name, value] : json["cases"].items()) names.push_back(name);
  return names;
}

class MlaMath : public testing::TestWithParam<std::string> {
 protected:
  MlaMath() {
    const auto json = nlohmann::json::parse(ReadWholeFile(kDirectory + "mla_math.json"));
    const auto& c = json["cases"][GetParam()];
    geometry_ = {c["H"], c["n"], c["r"], c["v"], c["Rk"], 0};
    length_ = c["S"];
    batch_ = c["B"];
    scale_ = c["softmax_scale"];
    rows_ = c["rows"].get<std::vector<int64_t>>();
    chunks_ = c["chunks"].get<std::vector<int64_t>>();
    kv_b_ = File().Floats(Name("kv_b"));
    for (float& w : kv_b_) w *= c["kv_b_scale"].get<float>();
  }
  static std::string Name(const std::string& tensor) { return GetParam() + "." + tensor; }

  // Sequence b with the query of rows_[i] as its last row.
  AttentionCase Case(int64_t b, size_t i) const {
    const MlaGeometry& g = geometry_;
    const int64_t window = rows_[i] + 1;
    AttentionCase c(g, window, 1, 1);
    c.kv_b = StoredMatrix(kv_b_, g.kv_b_rows(), g.kv_rank, Elem::kBf16);
    const auto latent = File().Floats(Name("latent"));
    const auto rope = File().Floats(Name("k_rope"));
    c.latent.clear();
    for (int64_t s = 0; s < window; ++s) {
      const int64_t row = b * length_ + s;
      c.latent.insert(c.latent.end(), latent.begin() + row * g.kv_rank,
                      latent.begin() + (row + 1) * g.kv_rank);
      c.latent.insert(c.latent.end(), rope.begin() + row * g.rope,
                      rope.begin() + (row + 1) * g.rope);
    }
    const auto q_nope = File().Floats(Name("q_nope"));
    const auto q_rope = File().Floats(Name("q_rope"));
    c.q.clear();
    for (int64_t h = 0; h < g.heads; ++h) {
      const int64_t at =
          (b * static_cast<int64_t>(rows_.size()) + static_cast<int64_t>(i)) * g.heads + h;
      for (int64_t x = 0; x < g.nope; ++x) c.q.push_back(q_nope[at * g.nope + x]);
      for (int64_t x = 0; x < g.rope; ++x) c.q.push_back(q_rope[at * g.rope + x]);
    }
    for (float& q : c.q) q = static_cast<float>(q * scale_);
    return c;
  }
  std::vector<double> Want(const std::string& tensor, int64_t b, size_t i, int64_t width) const {
    const auto all = File().Values(Name(tensor));
    const int64_t row = b * static_cast<int64_t>(rows_.size()) + static_cast<int64_t>(i);
    return {all.begin() + row * width, all.begin() + (row + 1) * width};
  }

  MlaGeometry geometry_;
  int64_t length_ = 0, batch_ = 0;
  double scale_ = 0;
  std::vector<int64_t> rows_, chunks_;
  std::vector<float> kv_b_;
};

TEST_P(MlaMath, EveryWay) {
  const int64_t width = geometry_.heads * geometry_.v_dim;
  for (int64_t b = 0; b < batch_; ++b) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const AttentionCase c = Case(b, i);
      const auto want = Want("out_decompressed", b, i, width);
      for (const Way& way : kAllWays) {
        EXPECT_LT(RelativeError(RunCase(c, way), want), 2e-5) << way.name << " row " << rows_[i];
      }
      // Latents and rotated keys are bf16 already: a bf16 cache loses no latent, an fp16 rope
      // part nothing within its range.
      EXPECT_LT(RelativeError(RunCase(c, kComposedWay, {.type = Elem::kBf16}), want), 2e-5);
      for (const int64_t chunk : chunks_) {
        const auto merged = Want("chunk" + std::to_string(chunk) + ".merged_out", b, i, width);
        EXPECT_LT(RelativeError(RunCase(c, kSplitWay, {.split_chunk = chunk}), merged), 2e-5);
      }
    }
  }
}

TEST_P(MlaMath, TheOracleAgrees) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const OracleResult oracle = Case(1, i).Want(CacheLayout::kLatent, Elem::kF32);
    const auto want = Want("out_decompressed", 1, i, geometry_.heads * geometry_.v_dim);
    EXPECT_LT(RelativeError(oracle.out, want), 1e-6);  // q · scale is rounded to fp32
    EXPECT_LT(RelativeError(oracle.lse2, Want("lse2", 1, i, geometry_.heads)), 1e-6);
  }
}

// The cases whose contexts are part of the subset.
class MlaMathPartials : public MlaMath {};

std::vector<std::string> CaseNamesWithContexts() {
  std::vector<std::string> names = CaseNames();
  std::erase_if(names, [](const std::string& name) { return !File().Has(name + ".ctx"); });
  return names;
}

// The handed partial contexts, merged, against the handed whole context.
TEST_P(MlaMathPartials, ContextsMerge) {
  const MlaGeometry& g = geometry_;
  const int64_t queries = static_cast<int64_t>(rows_.size());
  for (const int64_t chunk : chunks_) {
    const std::string name = "chunk" + std::to_string(chunk);
    const auto ctx = File().Floats(Name(name + ".ctx"));   // [chunks, Q, H, Rk], sequence 0
    const auto lse = File().Floats(Name(name + ".lse2"));  // [chunks, B, Q, H]
    const int64_t chunks = File().Shape(Name(name + ".ctx"))[0];
    for (int64_t i = 0; i < queries; ++i) {
      std::vector<float> v_in, lse_in;
      for (int64_t k = 0; k < chunks; ++k) {
        const auto v = ctx.begin() + (k * queries + i) * g.heads * g.kv_rank;
        v_in.insert(v_in.end(), v, v + g.heads * g.kv_rank);
        const auto l = lse.begin() + (k * batch_ * queries + i) * g.heads;
        lse_in.insert(lse_in.end(), l, l + g.heads);
      }
      const std::vector<int32_t> indptr = {0, static_cast<int32_t>(chunks)};
      std::vector<float> out(static_cast<size_t>(g.heads * g.kv_rank));
      std::vector<float> lse_out(static_cast<size_t>(g.heads));
      OpHarness harness;
      MergePartials(harness.context, v_in, lse_in, indptr, g.heads, g.kv_rank, out, lse_out);
      const size_t at = static_cast<size_t>(i);
      EXPECT_LT(RelativeError(out, Want("ctx", 0, at, g.heads * g.kv_rank)), 1e-5) << chunk;
      EXPECT_LT(RelativeError(lse_out, Want("lse2", 0, at, g.heads)), 1e-6) << chunk;
      // Negative control: the same numbers in natural units give another context.
      if (chunks == 1 || rows_[at] < chunk) continue;
      for (float& x : lse_in) x = static_cast<float>(x * std::log(2.0));
      MergePartials(harness.context, v_in, lse_in, indptr, g.heads, g.kv_rank, out, lse_out);
      EXPECT_GT(RelativeError(out, Want("ctx", 0, at, g.heads * g.kv_rank)), 1e-3) << chunk;
    }
  }
}

std::string TestName(const testing::TestParamInfo<std::string>& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Cases, MlaMath, testing::ValuesIn(CaseNames()), TestName);
INSTANTIATE_TEST_SUITE_P(Cases, MlaMathPartials, testing::ValuesIn(CaseNamesWithContexts()),
                         TestName);

}  // namespace
}  // namespace mla
