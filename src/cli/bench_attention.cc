#include <memory>

#include <fmt/core.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/geometry_json.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/units.h"
#include "mla/bench.h"

namespace mla {
namespace {

struct BenchArgs {
  explicit BenchArgs(CLI::App& app) : geometry(app, "deepseek-v2-lite") {}

  GeometryOptions geometry;
  BenchOptions options;
  bool json = false;
};

double StepsPerSecond(const BenchRow& row) {
  return row.ms_per_step > 0 ? 1000 / row.ms_per_step : 0;
}

double Mib(int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

Json KvJson(const BenchKv& kv) {
  return Json{{"decompressed_bytes_per_token_layer", kv.decompressed_bytes_per_token_layer},
              {"latent_bytes_per_token_layer", kv.latent_bytes_per_token_layer},
              {"decompressed_bytes_per_token", kv.decompressed_bytes_per_token},
              {"latent_bytes_per_token", kv.latent_bytes_per_token},
              {"ratio", kv.ratio},
              {"budget_gib", kv.budget_gib},
              {"decompressed_max_context", kv.decompressed_max_context},
              {"latent_max_context", kv.latent_max_context},
              {"fold_elements", kv.fold_elements},
              {"fold_mib", Mib(kv.fold_bytes)}};
}

Json RowJson(const BenchRow& row) {
  return Json{{"arm", row.arm},
              {"batch", row.batch},
              {"context", row.context},
              {"ms_per_step", row.ms_per_step},
              {"ms_spread", row.ms_spread},
              {"steps_per_s", StepsPerSecond(row)},
              {"kv_mib", Mib(row.kv_bytes)},
              {"gbps", row.gbps},
              {"tflops", row.tflops},
              {"limit_fraction", row.limit_fraction},
              {"max_error", row.max_error},
              {"isa", row.isa},
              {"kernel", row.kernel},
              {"threads", row.threads},
              {"paths", PathsJson(row.paths)},
              {"ok", row.ok},
              {"warning", row.warning}};
}

Json ReportJson(const BenchReport& report) {
  Json tflops = Json::object();
  for (const auto& [isa, value] : report.peaks.tflops) tflops[isa] = value;
  Json rows = Json::array();
  for (const BenchRow& row : report.rows) rows.push_back(RowJson(row));
  return Json{{"peaks", {{"read_gbps", report.peaks.read_gbps}, {"tflops", tflops}}},
              {"geometry", GeometryJson(report.geometry)},
              {"kv", KvJson(report.kv)},
              {"rows", rows}};
}

void PrintKv(Output& out, const BenchReport& report) {
  const Geometry& g = report.geometry;
  const BenchKv& kv = report.kv;
  out.Line(fmt::format("{}: {} layers, {} heads, n {}, r {}, v {}, Rk {}", g.name, g.layers,
                       g.heads, g.nope, g.rope, g.v_dim, g.kv_rank));
  out.Line(fmt::format("{:<14}{:>22}{:>22}{:>24}", "cache", "bytes/token/layer", "all layers",
                       fmt::format("context in {} GiB", kv.budget_gib)));
  out.Line(fmt::format("{:<14}{:>22}{:>22}{:>24}", "decompressed",
                       kv.decompressed_bytes_per_token_layer, kv.decompressed_bytes_per_token,
                       kv.decompressed_max_context));
  out.Line(fmt::format("{:<14}{:>22}{:>22}{:>24}", "latent", kv.latent_bytes_per_token_layer,
                       kv.latent_bytes_per_token, kv.latent_max_context));
  out.Line(fmt::format("ratio {:.1f}x; fold {} elements, {:.1f} MiB", kv.ratio, kv.fold_elements,
                       Mib(kv.fold_bytes)));
  std::string peaks = fmt::format("peaks of this run: read {:.1f} GB/s", report.peaks.read_gbps);
  for (const auto& [isa, value] : report.peaks.tflops) {
    peaks += fmt::format(", {} {:.3f} TFLOP/s", isa, value);
  }
  out.Line(peaks);
  out.Line("");
}

void PrintRows(Output& out, const BenchReport& report) {
  out.Line(fmt::format("{:<13}{:>6}{:>9}{:>11}{:>9}{:>10}{:>10}{:>8}{:>9}{:>7}  {}", "arm", "batch",
                       "context", "ms/step", "spread", "steps/s", "KV MiB", "GB/s", "TFLOP/s",
                       "limit", "isa kernel threads paths"));
  for (const BenchRow& row : report.rows) {
    out.Line(fmt::format(
        "{:<13}{:>6}{:>9}{:>11.4f}{:>9.4f}{:>10.1f}{:>10.2f}{:>8.2f}{:>9.4f}{:>6.0f}%  {} {} {} "
        "paths={}",
        row.arm, row.batch, row.context, row.ms_per_step, row.ms_spread, StepsPerSecond(row),
        Mib(row.kv_bytes), row.gbps, row.tflops, 100 * row.limit_fraction, row.isa, row.kernel,
        row.threads, FormatPaths(row.paths)));
  }
}

int RunBench(BenchArgs& args) {
  args.options.geometry = args.geometry.Get();
  const BenchReport report = RunAttentionBench(args.options, [](std::string_view stage) {
    if (StderrIsTerminal()) PrintError(stage);
  });
  Output out;
  if (args.json) {
    out.Line(Dump(ReportJson(report)));
  } else {
    PrintKv(out, report);
    PrintRows(out, report);
  }
  out.Flush();
  for (const BenchRow& row : report.rows) {
    if (row.ok) continue;
    PrintError(fmt::format("WARNING: {} batch {} context {}: {} (paths={})", row.arm, row.batch,
                           row.context, row.warning, FormatPaths(row.paths)));
  }
  return report.ok() ? 0 : 1;
}

void AddAttention(CLI::App& bench, Action& action) {
  constexpr int64_t kMax = int64_t{1} << 31;
  CLI::App* sub = bench.add_subcommand("attention", "One MLA block per decode step, every path");
  auto args = std::make_shared<BenchArgs>(*sub);
  BenchOptions& options = args->options;
  AddIntegerList(*sub, "--contexts", 1, kMax, options.contexts,
                 "Cached tokens (default: 4096,16384,32768)");
  AddIntegerList(*sub, "--batches", 1, 1 << 16, options.batches, "Sequences (default: 1,4)");
  AddInteger(
      *sub, "--steps", 1, kMax, [&options](int64_t n) { options.steps = n; },
      "Timed steps per row (default: 64)");
  AddInteger(
      *sub, "--warmup", 0, kMax, [&options](int64_t n) { options.warmup = n; },
      "Steps before them (default: 16)");
  AddCacheType(*sub, "--dtype", options.dtype, "Element type of the cache (default: bf16)");
  AddThreadsOption(*sub, options.threads);
  AddIsaOption(*sub, options.isa);
  AddNumber(
      *sub, "--kv-budget-gib", 0, kMaxBudgetGiB,
      [&options](double x) { options.kv_budget_gib = x; },
      "For the longest context that fits, GiB (default: 16)");
  sub->add_flag_callback(
      "--no-split", [&options] { options.split = false; }, "Without split_kv");
  sub->add_flag("--json", args->json, "Print one JSON object");
  sub->footer(
      "The arms are timed interleaved on the same data and their outputs compared. A row whose\n"
      "counters do not name its own arm, once per timed step, or whose output disagrees, prints a\n"
      "WARNING and makes the exit status 1.\n"
      "\n"
      "Examples:\n"
      "  mla bench attention --contexts 4096,16384 --batches 1,4\n"
      "  mla bench attention --like deepseek-v3 --contexts 4096 --batches 1 --steps 16 --json\n");
  sub->callback([args, &action] { action = [args] { return RunBench(*args); }; });
}

}  // namespace

void AddBench(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("bench", "Measure speed");
  sub->require_subcommand(1);
  sub->footer("Example:\n  mla bench attention --contexts 4096,16384 --batches 1,4\n");
  AddAttention(*sub, action);
}

}  // namespace mla
