// The library: load a model, make a session, feed tokens, sample, stream, read the statistics.
// Called by: applications (the command line itself; examples/hello.cc).
// Thread-safety: a Model may be shared by threads; its sessions run one at a time (they share the
// model's threads) and each Session belongs to one thread at a time.
#ifndef MLA_ENGINE_H_
#define MLA_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mla/error.h"
#include "mla/options.h"
#include "mla/version.h"

namespace mla {

/// Attention calls (layer x step) by the path that served them, in this fixed order.
struct PathCounts {
  int64_t decompressed = 0;
  int64_t absorbed_prefill = 0;
  int64_t absorbed_composed = 0;
  int64_t absorbed_split_kv = 0;
};

/// "decompressed=0,absorbed_prefill=6,absorbed_composed=24,absorbed_split_kv=0"
std::string FormatPaths(const PathCounts& paths);

struct NamedBytes {
  std::string kind;
  int64_t bytes = 0;
  int64_t parameters = 0;
};

/// What `mla inspect` shows. Sizes in bytes; per-token sizes are for all layers together.
struct ModelInfo {
  std::string family;
  int64_t parameters = 0;
  int64_t layers = 0, moe_layers = 0, hidden = 0, vocab = 0;
  int64_t heads = 0, nope = 0, rope = 0, v_dim = 0, kv_rank = 0, q_rank = 0;
  int64_t experts = 0, experts_per_token = 0, shared_experts = 0;
  int64_t max_positions = 0;
  int64_t file_bytes = 0;       ///< of the checkpoint's files
  int64_t weight_bytes = 0;     ///< of the tensors in use
  int64_t converted_bytes = 0;  ///< of those copied out of the mapping (norms, biases)
  std::vector<NamedBytes> kinds;
  int64_t fold_layers = 0;       ///< layers whose kv_b_proj can be folded
  int64_t fold_elements = 0;     ///< H(n+v)Rk per layer x layers
  int64_t fold_extra_bytes = 0;  ///< memory that the fold costs beside kv_b_proj
  std::string fold_format;       ///< e.g. "bf16 in place"
  std::string fold_decline;      ///< first reason for a layer that is not folded, or empty
};

/// Memory of one session as it was planned.
struct MemoryPlan {
  int64_t cache_bytes_per_token = 0;  ///< of the layout in use, all layers
  int64_t latent_bytes_per_token = 0;
  int64_t decompressed_bytes_per_token = 0;
  int64_t cache_bytes = 0;    ///< at the full context
  int64_t scratch_bytes = 0;  ///< activations and thread scratch, independent of the context
};

struct SessionStats {
  PathCounts paths;
  int64_t position = 0;      ///< tokens fed so far
  int64_t cache_tokens = 0;  ///< live tokens
  int64_t cache_bytes = 0;   ///< bytes of the live rows
  int64_t scratch_bytes = 0;
};

class ModelImpl;
class SessionImpl;

/// Text of a growing sequence of tokens. What it returned, concatenated, is Model::Decode of all.
class TextStream {
 public:
  TextStream();
  ~TextStream();
  TextStream(TextStream&&) noexcept;
  TextStream& operator=(TextStream&&) noexcept;
  std::string Push(int32_t token);  ///< text that became complete; never half a character
  std::string Flush();              ///< the rest

 private:
  friend class Model;
  struct State;
  std::unique_ptr<State> state_;
};

/// A loaded model with its tokenizer (if the directory has one) and its threads.
class Model {
 public:
  /// Loads a Hugging Face directory. Throws Error: kNotFound, kBadInput, kUnsupported, kResource.
  static Model Load(const std::string& directory, const LoadOptions& options = {});
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const ModelInfo& info() const;
  MemoryPlan Plan(const SessionOptions& options) const;
  int threads() const;
  std::string isa() const;  ///< the one in use, e.g. "avx2"

  bool has_tokenizer() const;
  /// The prompt's ids with exactly one BOS if the model has one. Throws kBadInput without
  /// tokenizer.
  std::vector<int32_t> Encode(std::string_view text) const;
  std::string Decode(std::span<const int32_t> tokens) const;
  TextStream Stream() const;
  std::optional<int32_t> bos() const;
  bool IsEndOfText(int32_t token) const;

  /// generation_config.json's defaults; greedy if there is none.
  SamplingOptions default_sampling() const;

 private:
  friend class Session;
  Model();
  std::shared_ptr<ModelImpl> impl_;
};

/// One sequence: its cache, position and statistics.
class Session {
 public:
  /// Throws kUsage for options that contradict the model, kResource if the cache does not fit.
  explicit Session(const Model& model, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Asked between layers and after each chunk with the tokens that are in and those in all;
  /// returning false stops.
  using Progress = std::function<bool(int64_t done, int64_t total)>;

  /// Appends tokens, in chunks of prefill_chunk. Throws kBadInput for an id out of range or an
  /// empty list, kContextFull (nothing is appended then), kNumeric naming the layer (the chunk it
  /// happened in is not appended). When `progress` stops, chunks that are done stay and the one
  /// under way is dropped. Returns the number of tokens appended.
  int64_t Feed(std::span<const int32_t> tokens, const Progress& progress = {});

  /// Logits [vocab] after the last token fed, valid until the next Feed. Empty before the first.
  std::span<const float> logits() const;

  /// As Feed, but hands out the logits of every position: on_row(position, logits [vocab]).
  int64_t FeedForLogits(std::span<const int32_t> tokens,
                        const std::function<void(int64_t, std::span<const float>)>& on_row,
                        const Progress& progress = {});

  /// The next token after the last one fed. The same options, seed and tokens give the same result.
  int32_t Sample(const SamplingOptions& options);

  int64_t position() const;     ///< tokens fed so far
  int64_t context() const;      ///< most tokens that fit
  Attention attention() const;  ///< the setting in force
  /// What the rows of the cache are multiplied with: "fma" (or "reference"), on a latent cache also
  /// a unit: "bf16dot", "amx-bf16", "vnni512", "vnni256", "pairs", "amx-int8".
  std::string kernel() const;
  int64_t Trim(int64_t count);       ///< drops the newest tokens; returns how many
  int64_t TrimFront(int64_t count);  ///< drops the oldest; positions of the others stay
  void Reset();                      ///< empty cache, position 0; statistics stay
  SessionStats stats() const;
  void ResetStats();

 private:
  std::unique_ptr<SessionImpl> impl_;
};

/// One instruction set the build knows.
struct IsaInfo {
  std::string name;       ///< as --isa and MLA_ISA take it
  bool detected = false;  ///< this machine has it
  bool chosen = false;    ///< in use
};
/// All that were compiled, best first.
std::vector<IsaInfo> Isas();
/// Forces an ISA for the whole process, not while a session runs; "" returns to the environment's
/// or the best. Throws kUsage listing the choices if it is unknown or this machine lacks it.
void ForceIsa(const std::string& name);
/// Why the chosen one was chosen: "best detected", "forced by --isa", "forced by MLA_ISA".
std::string IsaReason();

}  // namespace mla

#endif  // MLA_ENGINE_H_
