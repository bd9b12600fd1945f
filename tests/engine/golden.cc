#include "engine/golden.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace mla {
namespace {

using nlohmann::json;

struct Tensors {
  json header;
  std::string body;

  bool Has(const std::string& name) const { return header.contains(name); }
  std::vector<float> Floats(const std::string& name) const {
    const size_t begin = header.at(name).at("data_offsets").at(0);
    const size_t end = header.at(name).at("data_offsets").at(1);
    std::vector<float> values((end - begin) / sizeof(float));
    std::memcpy(values.data(), body.data() + begin, end - begin);
    return values;
  }
};

Tensors ReadTensors(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!in || length > (1u << 24)) throw std::runtime_error(path + ": not readable");
  std::string head(length, '\0');
  in.read(head.data(), static_cast<std::streamsize>(length));
  return {json::parse(head), std::string(std::istreambuf_iterator<char>(in), {})};
}

}  // namespace

double GoldenPrompt::Sigma() const {
  double mean = 0;
  for (const float x : logits) mean += x;
  mean /= static_cast<double>(logits.size());
  double squares = 0;
  for (const float x : logits) squares += (x - mean) * (x - mean);
  return std::sqrt(squares / static_cast<double>(logits.size()));
}

double GoldenPrompt::Error(int64_t row, const float* got) const {
  const int64_t at = row - (static_cast<int64_t>(ids.size()) - rows);
  if (at < 0) return 0;
  const float* want = logits.data() + at * vocab;
  double worst = 0;
  for (int64_t i = 0; i < vocab; ++i) {
    const double e = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (std::isnan(e)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, e);
  }
  return worst / Sigma();
}

Golden ReadGolden(const std::string& directory) {
  const json g = json::parse(std::ifstream(directory + "/golden.json"));
  const Tensors tensors = ReadTensors(directory + "/golden.safetensors");
  Golden golden;
  int number = 0;
  for (const json& p : g.at("prompts")) {
    const std::string suffix = std::to_string(++number);
    const std::string name =
        tensors.Has("logits." + suffix) ? "logits." + suffix : "logits_last." + suffix;
    GoldenPrompt prompt;
    prompt.ids = p.at("ids").get<std::vector<int32_t>>();
    prompt.greedy = p.at("greedy").get<std::vector<int32_t>>();
    prompt.top2_gap = p.at("top2_gap").get<std::vector<double>>();
    prompt.logits = tensors.Floats(name);
    prompt.rows = tensors.header.at(name).at("shape").at(0);
    prompt.vocab = tensors.header.at(name).at("shape").at(1);
    golden.prompts.push_back(std::move(prompt));
  }
  if (g.contains("perplexity")) {
    golden.perplexity_ids = g.at("perplexity").at("ids").get<std::vector<int32_t>>();
    golden.perplexity_nll = tensors.Floats("perplexity.nll");
  }
  return golden;
}

}  // namespace mla
