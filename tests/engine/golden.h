// Reference outputs of one checkpoint: prompts, logits, greedy continuations.
// Called by: tests of the engine. Thread-safety: a value.
#ifndef MLA_TESTS_ENGINE_GOLDEN_H_
#define MLA_TESTS_ENGINE_GOLDEN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mla {

struct GoldenPrompt {
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;   // continuation, not stopped at the end-of-text token
  std::vector<double> top2_gap;  // per greedy step
  std::vector<float> logits;     // [rows, vocab], the last rows of the prompt
  int64_t rows = 0;
  int64_t vocab = 0;

  // max |got - want| over the standard deviation of the golden logits; infinity for NaN.
  // row: position in the prompt.
  double Error(int64_t row, const float* got) const;
  double Sigma() const;
};

struct Golden {
  std::vector<GoldenPrompt> prompts;
  std::vector<int32_t> perplexity_ids;
  std::vector<float> perplexity_nll;  // [ids - 1]
};

// Reads golden.json and golden.safetensors in `directory`.
Golden ReadGolden(const std::string& directory);

}  // namespace mla

#endif  // MLA_TESTS_ENGINE_GOLDEN_H_
