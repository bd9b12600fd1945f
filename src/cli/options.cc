#include "cli/options.h"

#include <charconv>
#include <cmath>
#include <string_view>

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

CLI::Option* AddText(CLI::App& app, const std::string& names,
                     std::function<void(const std::string&)> set, const std::string& description,
                     const std::string& type) {
  return app.add_option_function<std::string>(names, std::move(set), description)->type_name(type);
}

void AddChoice(CLI::App& app, const std::string& name, const std::string& first,
               const std::string& second, std::function<void(bool)> is_first,
               const std::string& description) {
  AddText(
      app, name,
      [=](const std::string& text) {
        if (text != first && text != second) {
          Fail(ErrorCode::kUsage, "{}: expected {} or {}, found '{}'", name, first, second, text);
        }
        is_first(text == first);
      },
      description, first + "|" + second);
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

double ParseNumber(const std::string& text, double min, double max, const std::string& name) {
  double value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value) || value < min ||
      value > max) {
    Fail(ErrorCode::kUsage, "{}: expected a number from {} to {}, found '{}'", name, min, max,
         text);
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

CLI::Option* AddInteger(CLI::App& app, const std::string& names, int64_t min, int64_t max,
                        std::function<void(int64_t)> set, const std::string& description) {
  const std::string name = LongName(names);
  return AddText(
      app, names, [=](const std::string& text) { set(ParseInteger(text, min, max, name)); },
      description, "N");
}

CLI::Option* AddNumber(CLI::App& app, const std::string& names, double min, double max,
                       std::function<void(double)> set, const std::string& description) {
  const std::string name = LongName(names);
  return AddText(
      app, names, [=](const std::string& text) { set(ParseNumber(text, min, max, name)); },
      description, "X");
}

CLI::Option* AddIntegerList(CLI::App& app, const std::string& names, int64_t min, int64_t max,
                            std::vector<int64_t>& list, const std::string& description) {
  const std::string name = LongName(names);
  return AddText(
      app, names,
      [=, &list](const std::string& text) { list = ParseIntegerList(text, min, max, name); },
      description, "N,N,...");
}

CLI::Option* AddCacheType(CLI::App& app, const std::string& names, CacheType& type,
                          const std::string& description) {
  return AddText(
      app, names, [&type](const std::string& text) { type = ParseCacheType(text); }, description,
      "bf16|f16|f32");
}

void AddModelOption(CLI::App& app, std::string& model) {
  app.add_option("-m,--model", model, "Directory of the model")->type_name("DIR")->required();
}

void AddThreadsOption(CLI::App& app, int& threads) {
  AddInteger(
      app, "-t,--threads", 1, kMaxThreads,
      [&threads](int64_t value) { threads = static_cast<int>(value); },
      "Threads (default: physical cores that this process may use)");
}

void AddIsaOption(CLI::App& app, std::string& isa) {
  app.add_option("--isa", isa,
                 "Instruction set of the kernels; 'mla --version' lists them (default: MLA_ISA, "
                 "else the best)")
      ->type_name("NAME");
}

void AddEngineOptions(CLI::App& app, EngineArgs& args) {
  AddModelOption(app, args.model);
  AddText(
      app, "--attention",
      [&args](const std::string& text) { args.session.attention = ParseAttention(text); },
      "How attention runs (default: from MLXCEL_MLA_ABSORBED and MLXCEL_MLA_SPLIT_KV, else "
      "decompressed)",
      "decompressed|absorbed|split-kv|auto");
  AddThreadsOption(app, args.load.threads);
  AddIsaOption(app, args.load.isa);
  AddChoice(
      app, "--kernels", "fast", "reference",
      [&args](bool fast) { args.load.kernels = fast ? KernelSet::kFast : KernelSet::kReference; },
      "SIMD kernels, or plain double-accumulating ones (default: fast)");
  AddChoice(
      app, "--compute", "f32", "auto",
      [&args](bool f32) { args.load.compute = f32 ? Compute::kF32 : Compute::kAuto; },
      "fp32 arithmetic throughout, or the fastest within the documented error (default: auto)");
  AddCacheType(app, "--cache-type", args.session.cache_type,
               "Element type of the attention cache (default: bf16)");
  AddInteger(
      app, "--ctx", 1, kMaxTokens, [&args](int64_t value) { args.session.context = value; },
      "Most tokens in the cache (default: what the input needs, at most the trained length)");
  AddInteger(
      app, "--prefill-chunk", 1, kMaxTokens,
      [&args](int64_t value) { args.session.prefill_chunk = value; },
      "Most prompt tokens per forward pass (default: 512)");
  app.add_flag("--verbose", args.verbose, "More about loading on standard error");
}

GeometryOptions::GeometryOptions(CLI::App& app, std::string default_name)
    : like_(std::move(default_name)) {
  std::string names;
  for (const Geometry& known : KnownGeometries()) {
    names += (names.empty() ? "" : ", ") + known.name;
  }
  app.add_option("--like", like_, "Start from a known geometry (default: " + like_ + "): " + names)
      ->type_name("NAME");
  const auto add = [&](const char* name, int64_t Geometry::*field, const char* description) {
    AddInteger(
        app, name, 1, kMaxWidth,
        [this, field](int64_t value) { overrides_.emplace_back(field, value); }, description);
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

void ResolveEngineArgs(EngineArgs& args) {
  if (!args.session.attention) {
    std::string note;
    args.session.attention = AttentionFromEnvironment(&note);
    if (!note.empty()) PrintError(note);
  }
  args.load.log = StderrLog(args.verbose);
}

}  // namespace mla
