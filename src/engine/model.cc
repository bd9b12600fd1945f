#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/available_memory.h"
#include "engine/cache_elem.h"
#include "engine/isas.h"
#include "engine/model_impl.h"
#include "kernels/isa.h"
#include "model/config_reader.h"
#include "model/loader.h"
#include "parallel/topology.h"

namespace mla {
namespace {

int ThreadCount(const LoadOptions& options) {
  if (options.threads < 0 || options.threads > 4096) {
    Fail(ErrorCode::kUsage, "threads is {}; expected 1 to 4096, or 0 for the default",
         options.threads);
  }
  return options.threads > 0 ? options.threads : DetectTopology().default_threads;
}

ModelInfo Describe(const ModelConfig& config, const ModelWeights& weights,
                   const std::vector<LayerFold>& folds) {
  ModelInfo info;
  const MlaGeometry& g = config.attention;
  info.family = config.family;
  info.layers = config.num_layers;
  info.moe_layers = std::count(config.is_moe.begin(), config.is_moe.end(), true);
  info.hidden = config.hidden_size;
  info.vocab = config.vocab_size;
  info.heads = g.heads;
  info.nope = g.nope;
  info.rope = g.rope;
  info.v_dim = g.v_dim;
  info.kv_rank = g.kv_rank;
  info.q_rank = g.q_rank;
  info.experts = config.router.experts;
  info.experts_per_token = config.router.experts_per_token;
  info.shared_experts = config.num_shared_experts;
  info.max_positions = config.max_positions;
  info.file_bytes = weights.checkpoint->file_bytes();
  info.weight_bytes = weights.mapped_bytes + weights.converted_bytes;
  info.converted_bytes = weights.converted_bytes;
  for (const WeightKind& kind : weights.kinds) {
    info.kinds.push_back({kind.kind, kind.bytes, kind.parameters});
    info.parameters += kind.parameters;
  }
  for (const LayerFold& fold : folds) {
    if (!fold.folded()) {
      if (info.fold_decline.empty()) info.fold_decline = fold.decline;
      continue;
    }
    ++info.fold_layers;
    info.fold_elements += g.fold_elements();
    info.fold_extra_bytes += fold.extra_bytes;
    if (info.fold_format.empty()) {
      info.fold_format = std::string(DTypeName(fold.kv_b.dtype)) + " in place";
    }
  }
  return info;
}

// Families whose int8 latent is proven on reference outputs (docs/kernels/int8_latent.md).
constexpr std::string_view kInt8Families[] = {"deepseek_v2", "deepseek_v3", "kimi_k2"};

// Refuses what a cache type cannot serve. Throws kUsage.
void CheckCache(const ModelImpl& model, const ResolvedSession& s) {
  if (s.type != Elem::kInt8) return;
  if (s.attention == Attention::kDecompressed) {
    Fail(ErrorCode::kUsage,
         "cache type int8 needs a latent cache; expected attention absorbed, split-kv or auto, "
         "found decompressed; choose one of them with --attention, or another --cache-type");
  }
  if (s.layout == CacheLayout::kDecompressed) {
    Fail(ErrorCode::kUsage,
         "cache type int8 needs a latent cache; this model runs decompressed ({}); use "
         "--cache-type bf16, f16 or f32",
         model.info.fold_decline);
  }
  if (std::find(std::begin(kInt8Families), std::end(kInt8Families), model.config.family) ==
      std::end(kInt8Families)) {
    Fail(ErrorCode::kUsage,
         "cache type int8 is not proven for the family {}; expected one of {}; use --cache-type "
         "bf16, f16 or f32",
         model.config.family, fmt::join(kInt8Families, ", "));
  }
}

}  // namespace

ModelImpl::ModelImpl(const std::string& dir, const LoadOptions& load_options)
    : options(load_options),
      directory(dir),
      config(ReadConfig(dir)),
      defaults(ReadGenerationDefaults(dir)),
      weights(LoadWeights(config, Checkpoint::Open(dir))),
      folds(BuildFolds(config, *weights)),
      info(Describe(config, *weights, folds)),
      eos_ids(config.eos_ids),
      kernels(load_options.kernels == KernelSet::kReference ? &ReferenceKernels() : &FastKernels()),
      pool(ThreadCount(load_options)),
      scratch(pool.threads()) {
  if (load_options.isa.empty()) {
    EnsureIsaChosen();
  } else {
    ForceIsa(load_options.isa);
  }
  units = ChooseLatentUnits(pool, load_options.compute, load_options.log);
  try {
    tokenizer = Tokenizer::Load(dir);
    if (tokenizer->eos_id()) eos_ids.push_back(*tokenizer->eos_id());
  } catch (const Error& e) {
    // Token ids in and out still work; whoever asks for text is told why there is none.
    tokenizer_fault = e.what();
    std::error_code ignored;
    if (std::filesystem::exists(dir + "/tokenizer.json", ignored)) {
      Log(LogLevel::kWarning, fmt::format("mla: no text, only token ids: {}", tokenizer_fault));
    }
  }
}

CacheLayout ModelImpl::LayoutOf(Attention attention) const {
  if (attention == Attention::kDecompressed || !info.fold_decline.empty()) {
    return CacheLayout::kDecompressed;
  }
  return CacheLayout::kLatent;
}

const Tokenizer& ModelImpl::RequireTokenizer() const {
  if (tokenizer == nullptr) {
    Fail(ErrorCode::kBadInput, "{}: no usable tokenizer ({}); give token ids instead of text",
         directory, tokenizer_fault);
  }
  return *tokenizer;
}

ResolvedSession Resolve(const ModelImpl& model, const SessionOptions& options) {
  ResolvedSession s;
  s.attention = options.attention.value_or(AttentionFromEnvironment());
  s.layout = model.LayoutOf(s.attention);
  s.policy = s.attention == Attention::kAuto      ? DecodeMode::kAuto
             : s.attention == Attention::kSplitKv ? DecodeMode::kSplitKv
                                                  : DecodeMode::kComposed;
  s.policy.deterministic = options.deterministic;
  s.type = CacheElem(options.cache_type);
  CheckCache(model, s);
  const int64_t most = model.config.max_positions;
  s.context = options.context == 0 ? most : options.context;
  if (s.context < 1 || s.context > most) {
    Fail(ErrorCode::kUsage, "ctx is {}; expected 1 to {}, the length that the model was made for",
         options.context, most);
  }
  if (options.prefill_chunk < 1) {
    Fail(ErrorCode::kUsage, "prefill-chunk is {}; expected 1 or more", options.prefill_chunk);
  }
  s.chunk = std::min(options.prefill_chunk, s.context);
  return s;
}

MemoryPlan PlanMemory(const ModelImpl& model, const ResolvedSession& session,
                      int64_t activation_bytes) {
  const MlaGeometry& g = model.config.attention;
  MemoryPlan plan;
  plan.latent_bytes_per_token = model.config.num_layers * LatentBytesPerToken(g, session.type);
  plan.decompressed_bytes_per_token =
      model.config.num_layers * DecompressedBytesPerToken(g, session.type);
  plan.cache_bytes_per_token = session.layout == CacheLayout::kLatent
                                   ? plan.latent_bytes_per_token
                                   : plan.decompressed_bytes_per_token;
  plan.cache_bytes = CheckedMul(plan.cache_bytes_per_token, session.context, "cache bytes");
  plan.scratch_bytes =
      activation_bytes +
      4 * ForwardScratchFloats(model.config, session.layout, session.type, model.units) *
          model.pool.threads();
  return plan;
}

ResolvedSession ResolveToFit(const ModelImpl& model, const SessionOptions& options) {
  ResolvedSession s = Resolve(model, options);
  const Forward forward(model.config, *model.weights, model.folds, s.layout, s.chunk, 1);
  const MemoryPlan plan = PlanMemory(model, s, forward.bytes() + 4 * model.config.vocab_size);
  const int64_t available = AvailableMemory();
  if (plan.cache_bytes <= available - plan.scratch_bytes) return s;
  const int64_t fits =
      std::max<int64_t>(0, available - plan.scratch_bytes) / plan.cache_bytes_per_token;
  if (options.context != 0 || fits == 0) {
    Fail(ErrorCode::kResource,
         "a context of {} tokens takes {} bytes of cache and {} of activations, and {} bytes are "
         "available: {} tokens would fit. Use a smaller --ctx{}",
         s.context, plan.cache_bytes, plan.scratch_bytes, available, fits,
         s.layout == CacheLayout::kDecompressed ? ", or --attention absorbed with its smaller cache"
                                                : " or --prefill-chunk");
  }
  model.Log(LogLevel::kInfo, fmt::format("mla: the context is {} tokens instead of {}: more do not "
                                         "fit into memory",
                                         fits, s.context));
  s.context = fits;
  s.chunk = std::min(s.chunk, fits);
  return s;
}

Model Model::Load(const std::string& directory, const LoadOptions& options) {
  Model model;
  model.impl_ = std::make_shared<ModelImpl>(directory, options);
  return model;
}

Model::Model() = default;
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const ModelInfo& Model::info() const { return impl_->info; }

MemoryPlan Model::Plan(const SessionOptions& options) const {
  const ResolvedSession s = Resolve(*impl_, options);
  const Forward forward(impl_->config, *impl_->weights, impl_->folds, s.layout, s.chunk, 1);
  return PlanMemory(*impl_, s, forward.bytes() + 4 * impl_->config.vocab_size);
}

int Model::threads() const { return impl_->pool.threads(); }

std::string Model::isa() const {
  return impl_->options.kernels == KernelSet::kReference ? "reference" : IsaInUse();
}

bool Model::has_tokenizer() const { return impl_->tokenizer != nullptr; }

std::vector<int32_t> Model::Encode(std::string_view text) const {
  std::vector<int32_t> ids = impl_->RequireTokenizer().EncodePrompt(text);
  if (ids.empty() && bos()) ids.push_back(*bos());
  return ids;
}

std::string Model::Decode(std::span<const int32_t> tokens) const {
  return impl_->RequireTokenizer().Decode(tokens);
}

std::optional<int32_t> Model::bos() const {
  if (impl_->tokenizer != nullptr && impl_->tokenizer->bos_id()) return impl_->tokenizer->bos_id();
  return impl_->config.bos_id;
}

bool Model::IsEndOfText(int32_t token) const {
  return std::find(impl_->eos_ids.begin(), impl_->eos_ids.end(), token) != impl_->eos_ids.end();
}

SamplingOptions Model::default_sampling() const {
  SamplingOptions s;
  s.temperature = impl_->defaults.temperature;
  s.top_k = impl_->defaults.top_k;
  s.top_p = impl_->defaults.top_p;
  s.min_p = impl_->defaults.min_p;
  s.repeat_penalty = impl_->defaults.repeat_penalty;
  return s;
}

struct TextStream::State {
  StreamDecoder decoder;
};

TextStream::TextStream() = default;
TextStream::~TextStream() = default;
TextStream::TextStream(TextStream&&) noexcept = default;
TextStream& TextStream::operator=(TextStream&&) noexcept = default;

std::string TextStream::Push(int32_t token) {
  return state_ == nullptr ? "" : state_->decoder.Push(token);
}

std::string TextStream::Flush() { return state_ == nullptr ? "" : state_->decoder.Flush(); }

TextStream Model::Stream() const {
  impl_->RequireTokenizer();
  TextStream stream;
  stream.state_ =
      std::make_unique<TextStream::State>(TextStream::State{StreamDecoder(impl_->tokenizer)});
  return stream;
}

}  // namespace mla
