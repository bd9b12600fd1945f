#include <cmath>
#include <memory>
#include <span>

#include <fmt/core.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/units.h"
#include "mla/bench.h"

namespace mla {
namespace {

struct BenchArgs {
  explicit BenchArgs(Command command) : geometry(command, "deepseek-v2-lite") {}

  GeometryOptions geometry;
  BenchOptions options;
  bool json = false;
};

double StepsPerSecond(const BenchRow& row) {
  return row.ms_per_step > 0 ? 1000 / row.ms_per_step : 0;
}

double Mib(int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

JsonText KvJson(const BenchKv& kv) {
  return JsonText()
      .Add("decompressed_bytes_per_token_layer", kv.decompressed_bytes_per_token_layer)
      .Add("latent_bytes_per_token_layer", kv.latent_bytes_per_token_layer)
      .Add("decompressed_bytes_per_token", kv.decompressed_bytes_per_token)
      .Add("latent_bytes_per_token", kv.latent_bytes_per_token)
      .Add("ratio", kv.ratio)
      .Add("budget_gib", kv.budget_gib)
      .Add("decompressed_max_context", kv.decompressed_max_context)
      .Add("latent_max_context", kv.latent_max_context)
      .Add("fold_elements", kv.fold_elements)
      .Add("fold_mib", Mib(kv.fold_bytes));
}

/// What 1000 cached tokens cost a step of the whole model, per sequence.
double MsPer1000(const BenchRow& row, int64_t layers) {
  return row.ms_per_step * static_cast<double>(layers) * 1000 /
         static_cast<double>(row.batch * row.context);
}

JsonText RowJson(const BenchRow& row, int64_t layers) {
  return JsonText()
      .Add("arm", row.arm)
      .Add("batch", row.batch)
      .Add("context", row.context)
      .Add("ms_per_step", row.ms_per_step)
      .Add("ms_spread", row.ms_spread)
      .Add("ms_per_1000_tokens", MsPer1000(row, layers))
      .Add("steps_per_s", StepsPerSecond(row))
      .Add("kv_mib", Mib(row.kv_bytes))
      .Add("gbps", row.gbps)
      .Add("tflops", row.tflops)
      .Add("limit_fraction", row.limit_fraction)
      .Add("max_error", row.max_error)
      .Add("isa", row.isa)
      .Add("kernel", row.kernel)
      .Add("threads", row.threads)
      .Add("paths", PathsJson(row.paths))
      .Add("ok", row.ok)
      .Add("warning", row.warning);
}

JsonText ReportJson(const BenchReport& report) {
  JsonText tflops;
  for (const auto& [isa, value] : report.peaks.tflops) tflops.Add(isa, value);
  JsonText units;
  for (const auto& [unit, value] : report.peaks.units) units.Add(unit, value);
  std::vector<JsonText> rows;
  for (const BenchRow& row : report.rows) {
    rows.push_back(RowJson(row, report.geometry.layers));
  }
  return JsonText()
      .Add("peaks", JsonText()
                        .Add("read_gbps", report.peaks.read_gbps)
                        .Add("tflops", tflops)
                        .Add("units", units))
      .Add("geometry", GeometryJson(report.geometry))
      .Add("kv", KvJson(report.kv))
      .Add("cold", report.cold)
      .Add("rows", rows);
}

void PrintPeaks(Output& out, const char* name, const BenchPeaks& peaks) {
  std::string line = fmt::format("{}: read {:.1f} GB/s", name, peaks.read_gbps);
  for (const auto& [isa, value] : peaks.tflops) {
    line += fmt::format(", {} {:.3f} TFLOP/s", isa, value);
  }
  for (const auto& [unit, value] : peaks.units) {
    line += fmt::format(", {} {:.3f} Top/s", unit, value);
  }
  out.Line(line);
}

/// What is known before the first row, and the heads of the columns.
void PrintHead(Output& out, const BenchReport& report) {
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
  PrintPeaks(out, "peaks before the rows", report.peaks);
  if (report.cold) out.Line("each step begins with cold caches");
  out.Line("");
  out.Line(fmt::format("{:<13}{:>6}{:>9}{:>11}{:>9}{:>10}{:>10}{:>10}{:>8}{:>9}{:>7}  {}", "arm",
                       "batch", "context", "ms/step", "spread", "ms/1K·L", "steps/s", "KV MiB",
                       "GB/s", "TFLOP/s", "limit", "isa kernel threads paths"));
}

int Percent(double fraction) { return static_cast<int>(std::lround(100 * fraction)); }

/// The column ms/1K·L: per 1000 cached tokens, all layers.
void PrintRows(Output& out, std::span<const BenchRow> rows, int64_t layers) {
  for (const BenchRow& row : rows) {
    out.Line(fmt::format(
        "{:<13}{:>6}{:>9}{:>11.4f}{:>9.4f}{:>10.3f}{:>10.1f}{:>10.2f}{:>8.2f}{:>9.4f}{:>6}%  {} {} "
        "{} "
        "paths={}",
        row.arm, row.batch, row.context, row.ms_per_step, row.ms_spread, MsPer1000(row, layers),
        StepsPerSecond(row), Mib(row.kv_bytes), row.gbps, row.tflops, Percent(row.limit_fraction),
        row.isa, row.kernel, row.threads, FormatPaths(row.paths)));
  }
}

/// The rows were printed with the limits that the peaks before them gave; here is what became of
/// them.
void PrintEnd(Output& out, const BenchReport& report, const std::vector<double>& printed) {
  out.Line("");
  PrintPeaks(out, "peaks of this run", report.peaks);
  bool same = true;
  std::string limits;
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const int percent = Percent(report.rows[i].limit_fraction);
    same = same && percent == Percent(printed[i]);
    limits += fmt::format(" {}%", percent);
  }
  if (!same) out.Line("limit with these peaks, row by row:" + limits);
}

int RunBench(BenchArgs& args) {
  args.options.geometry = args.geometry.Get();
  WarnOfThreads(args.options.threads);
  Output out;
  std::vector<double> printed;
  const auto on_progress = [](std::string_view stage) {
    if (StderrIsTerminal()) PrintError(stage);
  };
  const auto on_rows = [&](const BenchReport& so_far, size_t first) {
    if (args.json) return;
    if (first == 0) PrintHead(out, so_far);
    const auto rows = std::span(so_far.rows).subspan(first);
    PrintRows(out, rows, so_far.geometry.layers);
    out.Flush();
    for (const BenchRow& row : rows) printed.push_back(row.limit_fraction);
  };
  const BenchReport report = RunAttentionBench(args.options, on_progress, on_rows);
  if (args.json) {
    out.Line(ReportJson(report).Text());
  } else {
    PrintEnd(out, report, printed);
  }
  out.Flush();
  for (const BenchRow& row : report.rows) {
    if (row.ok) continue;
    PrintError(fmt::format("WARNING: {} batch {} context {}: {} (paths={})", row.arm, row.batch,
                           row.context, row.warning, FormatPaths(row.paths)));
  }
  return report.ok() ? 0 : 1;
}

void AddAttention(Command bench) {
  constexpr int64_t kMax = int64_t{1} << 31;
  Command command = bench.AddSubcommand("attention", "One MLA block per decode step, every path");
  auto args = std::make_shared<BenchArgs>(command);
  BenchOptions& options = args->options;
  AddIntegerList(command, "--contexts", 1, kMax, "Cached tokens (default: 4096,16384,32768)",
                 options.contexts);
  AddIntegerList(command, "--batches", 1, 1 << 16, "Sequences (default: 1,4)", options.batches);
  AddInteger(command, "--steps", 1, kMax, "Timed steps per row (default: 64)",
             [&options](int64_t n) { options.steps = n; });
  AddInteger(command, "--warmup", 0, kMax, "Steps before them (default: 16)",
             [&options](int64_t n) { options.warmup = n; });
  AddCacheType(command, "--dtype", "Element type of the cache (default: bf16)", options.dtype);
  AddThreadsOption(command, options.threads);
  AddIsaOption(command, options.isa);
  AddNumber(command, "--kv-budget-gib", 0, kMaxBudgetGiB,
            "For the longest context that fits, GiB (default: 16)",
            [&options](double x) { options.kv_budget_gib = x; });
  command.AddFlag("--no-split", "Without the split_kv arm", [&options] { options.split = false; });
  command.AddFlag("--cold",
                  "Empty the processor's caches before each step, as the rest of a model does",
                  [&options] { options.cold = true; });
  AddJsonFlag(command, "Print one JSON object", args->json);
  command.SetFooter(
      "The arms are timed interleaved on the same data and their outputs compared. A row whose\n"
      "counters do not name its own arm, once per timed step, or whose output disagrees, prints a\n"
      "WARNING and makes the exit status 1.\n"
      "\n"
      "Examples:\n"
      "  mla bench attention --contexts 4096,16384 --batches 1,4\n"
      "  mla bench attention --like deepseek-v3 --contexts 4096 --batches 1 --steps 16 --json\n");
  command.SetAction([args] { return RunBench(*args); });
}

}  // namespace

void AddBench(Command root) {
  Command command = root.AddSubcommand("bench", "Measure speed");
  command.RequireSubcommand();
  command.SetFooter(
      "Examples:\n"
      "  mla bench peaks\n"
      "  mla bench attention --contexts 4096,16384 --batches 1,4\n");
  AddBenchPeaks(command);
  AddBenchRows(command);
  AddAttention(command);
}

}  // namespace mla
