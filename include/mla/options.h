// Choices that a caller makes when loading and running a model.
// Called by: applications. Thread-safety: values.
#ifndef MLA_OPTIONS_H_
#define MLA_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mla/log.h"

namespace mla {

/// How attention runs (docs/mla.md). kAuto: a latent cache, and per call what is expected to be
/// faster; the same settings take the same paths in every process.
enum class Attention { kDecompressed, kAbsorbed, kSplitKv, kAuto };
/// Element type of the attention cache. kInt8: latent rows as int8 with a scale each, k_rope as
/// fp16; only with absorbed attention, for families where its error is proven.
enum class CacheType { kBf16, kF16, kF32, kInt8 };
/// kFast: Highway kernels of the chosen ISA; kReference: plain double-accumulating ones.
enum class KernelSet { kFast, kReference };
/// kF32: fp32 arithmetic throughout. kAuto: the fastest arithmetic within the error bounds: for
/// latents in bf16 also products of bf16 pairs, where a unit for them is faster.
enum class Compute { kAuto, kF32 };

/// "decompressed", "absorbed", "split-kv", "auto". Parsing throws kUsage listing the choices.
const char* AttentionName(Attention attention) noexcept;
Attention ParseAttention(const std::string& name);
/// "bf16", "f16", "f32", "int8".
const char* CacheTypeName(CacheType type) noexcept;
CacheType ParseCacheType(const std::string& name);

/// The setting that MLXCEL_MLA_ABSORBED and MLXCEL_MLA_SPLIT_KV give (docs/environment.md); each is
/// on for 1, true, on, yes in any case, surrounding blanks trimmed, and off for any other text.
/// kAuto where the first is unset or blank. `note`, if not null, receives a remark when a variable
/// has no effect.
Attention AttentionFromEnvironment(std::string* note = nullptr);

struct LoadOptions {
  int threads = 0;  ///< 0: min(affinity, cgroup quota, physical cores)
  /// Of the whole process, so do not force one while another model runs. "": what the process uses
  /// already, at first MLA_ISA, else the best; see Isas().
  std::string isa{};
  KernelSet kernels = KernelSet::kFast;
  Compute compute = Compute::kAuto;
  LogSink log{};  ///< receives the load line (kNotice) and remarks
};

struct SessionOptions {
  std::optional<Attention> attention{};  ///< empty: AttentionFromEnvironment()
  CacheType cache_type = CacheType::kBf16;
  /// Most tokens in the cache. 0: the model's trained length, or as many as fit into memory.
  int64_t context = 0;
  int64_t prefill_chunk = 512;  ///< most tokens per forward pass
  /// The bits of attention depend on nothing but the sequence: not on threads, batch or
  /// prefill_chunk. Slower: every row on a latent cache runs absorbed, chunks are cut by position.
  bool deterministic = false;
};

/// Sampling. temperature 0 is greedy. Order, as in transformers: repeat_penalty, temperature,
/// top_k, top_p, min_p.
struct SamplingOptions {
  double temperature = 0;
  int64_t top_k = 0;          ///< 0: off
  double top_p = 1;           ///< 1: off
  double min_p = 0;           ///< 0: off
  double repeat_penalty = 1;  ///< 1: off; over the last 64 tokens
  uint64_t seed = 0;
};

}  // namespace mla

#endif  // MLA_OPTIONS_H_
