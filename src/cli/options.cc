#include "cli/options.h"

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <string_view>

#include <fmt/core.h>

#include "base/check.h"
#include "cli/output.h"

namespace mla {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 31;  // contexts, chunks: far above any model
constexpr int64_t kMaxThreads = 4096;
constexpr int64_t kMaxWidth = int64_t{1} << 20;  // heads, ranks, head widths, layers

/// "-m,--model" -> "--model"
std::string LongName(const std::string& names) {
  const size_t comma = names.rfind(',');
  return comma == std::string::npos ? names : names.substr(comma + 1);
}

void AddChoice(Command command, const std::string& name, const std::string& first,
               const std::string& second, const std::string& description,
               std::function<void(bool)> is_first) {
  command.AddText(name, first + "|" + second, description, [=](const std::string& text) {
    if (text != first && text != second) {
      Fail(ErrorCode::kUsage, "{}: expected {} or {}, found '{}'", name, first, second, text);
    }
    is_first(text == first);
  });
}

}  // namespace

int64_t ParseInteger(const std::string& text, int64_t min, int64_t max, const std::string& name) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < min || value > max) {
    Fail(ErrorCode::kUsage, "{}: expected an integer from {} to {}, found '{}'", name, min, max,
         text);
  }
  return value;
}

double ParseNumber(const std::string& text, double min, double max, const std::string& name,
                   Lowest lowest) {
  double value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value) || value < min ||
      value > max || (lowest == Lowest::kExcluded && value == min)) {
    const std::string range = lowest == Lowest::kExcluded
                                  ? fmt::format("above {}, at most {}", min, max)
                                  : fmt::format("from {} to {}", min, max);
    Fail(ErrorCode::kUsage, "{}: expected a number {}, found '{}'", name, range, text);
  }
  return value;
}

std::vector<int64_t> ParseIntegerList(const std::string& text, int64_t min, int64_t max,
                                      const std::string& name) {
  std::vector<int64_t> list;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    list.push_back(ParseInteger(text.substr(begin, comma - begin), min, max, name));
    begin = comma + 1;
  }
  return list;
}

void AddInteger(Command command, const std::string& names, int64_t min, int64_t max,
                const std::string& description, std::function<void(int64_t)> set) {
  command.AddText(names, "N", description, [=, name = LongName(names)](const std::string& text) {
    set(ParseInteger(text, min, max, name));
  });
}

void AddNumber(Command command, const std::string& names, double min, double max,
               const std::string& description, std::function<void(double)> set) {
  command.AddText(names, "X", description, [=, name = LongName(names)](const std::string& text) {
    set(ParseNumber(text, min, max, name));
  });
}

void AddIntegerList(Command command, const std::string& names, int64_t min, int64_t max,
                    const std::string& description, std::vector<int64_t>& list) {
  command.AddText(names, "N,N,...", description,
                  [=, &list, name = LongName(names)](const std::string& text) {
                    list = ParseIntegerList(text, min, max, name);
                  });
}

void AddCacheType(Command command, const std::string& names, const std::string& description,
                  CacheType& type) {
  command.AddText(names, "bf16|f16|f32|int8", description,
                  [&type](const std::string& text) { type = ParseCacheType(text); });
}

void AddModelOption(Command command, std::string& model) {
  constexpr bool kRequired = true;
  command.AddText(
      "-m,--model", "DIR", "Directory of the model",
      [&model](const std::string& text) { model = text; }, kRequired);
}

void AddThreadsOption(Command command, int& threads) {
  AddInteger(command, "-t,--threads", 1, kMaxThreads,
             "Threads (default: physical cores that this process may use)",
             [&threads](int64_t value) { threads = static_cast<int>(value); });
}

void AddIsaOption(Command command, std::string& isa) {
  command.AddText("--isa", "NAME",
                  "Instruction set of the kernels; 'mla --version' lists them (default: MLA_ISA, "
                  "else the best; units for bf16 latents as measured)",
                  [&isa](const std::string& text) { isa = text; });
}

void AddJsonFlag(Command command, const std::string& description, bool& json) {
  command.AddFlag("--json", description, [&json] { json = true; });
}

void AddEngineOptions(Command command, EngineArgs& args) {
  LoadOptions& load = args.load;
  SessionOptions& session = args.session;
  AddModelOption(command, args.model);
  command.AddText("--attention", "decompressed|absorbed|split-kv|auto",
                  "How attention runs (default: from MLXCEL_MLA_ABSORBED and MLXCEL_MLA_SPLIT_KV, "
                  "else auto)",
                  [&](const std::string& text) { session.attention = ParseAttention(text); });
  AddThreadsOption(command, load.threads);
  AddIsaOption(command, load.isa);
  AddChoice(command, "--kernels", "fast", "reference",
            "SIMD kernels, or plain double-accumulating ones (default: fast)",
            [&](bool fast) { load.kernels = fast ? KernelSet::kFast : KernelSet::kReference; });
  AddChoice(command, "--compute", "f32", "auto",
            "fp32 arithmetic throughout, or the fastest within the error bounds (default: auto); "
            "auto may multiply latents in bf16 pairs",
            [&](bool f32) { load.compute = f32 ? Compute::kF32 : Compute::kAuto; });
  AddCacheType(command, "--cache-type", "Element type of the attention cache (default: bf16)",
               session.cache_type);
  AddInteger(command, "--ctx", 1, kMaxTokens,
             "Most tokens in the cache (default: what the input needs, at most the trained length)",
             [&](int64_t value) { session.context = value; });
  AddInteger(command, "--prefill-chunk", 1, kMaxTokens,
             "Most prompt tokens per forward pass (default: 512)",
             [&](int64_t value) { session.prefill_chunk = value; });
  command.AddFlag("--deterministic", "Same bits whatever the threads and --prefill-chunk (slower)",
                  [&] { session.deterministic = true; });
  command.AddFlag("--verbose", "More about loading on standard error",
                  [&] { args.verbose = true; });
}

GeometryOptions::GeometryOptions(Command command, std::string default_name)
    : like_(std::move(default_name)) {
  std::string names;
  for (const Geometry& known : KnownGeometries()) {
    names += (names.empty() ? "" : ", ") + known.name;
  }
  command.AddText("--like", "NAME",
                  "Start from a known geometry (default: " + like_ + "): " + names,
                  [this](const std::string& text) { like_ = text; });
  const auto add = [&](const char* name, int64_t Geometry::*field, const char* description) {
    AddInteger(command, name, 1, kMaxWidth, description,
               [this, field](int64_t value) { overrides_.emplace_back(field, value); });
  };
  add("--heads", &Geometry::heads, "H: query heads");
  add("--rank", &Geometry::kv_rank, "Rk: width of the latent (kv_lora_rank)");
  add("--nope", &Geometry::nope, "n: score width without position (qk_nope_head_dim)");
  add("--rope", &Geometry::rope, "r: rotated width (qk_rope_head_dim)");
  add("--v-dim", &Geometry::v_dim, "v: value width (v_head_dim)");
  add("--layers", &Geometry::layers, "Attention layers");
}

Geometry GeometryOptions::Get() const {
  Geometry geometry = FindGeometry(like_);
  for (const auto& [field, value] : overrides_) {
    if (geometry.*field != value) geometry.name = "custom";
    geometry.*field = value;
  }
  return geometry;
}

void WarnOfThreads(int threads) {
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  if (cpus < 1 || threads <= cpus) return;
  PrintError(
      fmt::format("mla: warning: {} threads on {} CPUs: they wait for each other", threads, cpus));
}

void ResolveEngineArgs(EngineArgs& args) {
  WarnOfThreads(args.load.threads);
  if (!args.session.attention) {
    std::string note;
    args.session.attention = AttentionFromEnvironment(&note);
    if (!note.empty()) PrintError(note);
  }
  args.load.log = StderrLog(args.verbose);
}

}  // namespace mla
