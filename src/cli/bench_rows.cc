#include <cmath>
#include <memory>

#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "mla/bench.h"

namespace mla {
namespace {

struct RowsArgs {
  RowsArgs(Command command, bool prefill_) : geometry(command, "deepseek-v2-lite") {
    prefill = prefill_;
    options.decompressed = prefill_;
    if (prefill_) {
      options.rows = {16, 128, 512};
      options.contexts = {512, 2048, 8192};
    }
  }

  GeometryOptions geometry;
  RowsOptions options;
  bool prefill = false;
  bool json = false;
};

JsonText CellJson(const RowsCell& cell) {
  std::vector<JsonText> arms;
  for (const RowsArm& arm : cell.arms) {
    arms.push_back(JsonText()
                       .Add("arm", arm.arm)
                       .Add("ms", arm.ms)
                       .Add("tflops", arm.tflops)
                       .Add("kernel", arm.kernel)
                       .Add("limit_fraction", arm.tflops / arm.peak_tflops)
                       .Add("max_error", arm.max_error)
                       .Add("paths", PathsJson(arm.paths)));
  }
  return JsonText()
      .Add("context", cell.context)
      .Add("rows", cell.rows)
      .Add("auto_over_best", cell.auto_over_best)
      .Add("arms", arms);
}

JsonText CostsJson(const RowsReport::Costs& c) {
  return JsonText()
      .Add("absorbed_pair_ns", c.absorbed_pair_ns)
      .Add("up_key_ns", c.up_key_ns)
      .Add("up_pair_ns", c.up_pair_ns)
      .Add("task_keys", c.task_keys)
      .Add("merge_keys", c.merge_keys);
}

JsonText ReportJson(const RowsReport& r) {
  std::vector<JsonText> cells;
  for (const RowsCell& cell : r.cells) cells.push_back(CellJson(cell));
  return JsonText()
      .Add("geometry", GeometryJson(r.geometry))
      .Add("isa", r.isa)
      .Add("kernel", r.kernel)
      .Add("threads", r.threads)
      .Add("peak_tflops", r.peak_tflops)
      .Add("calibration_ms", r.calibration_ms)
      .Add("costs", CostsJson(r.measured))
      .Add("expected_costs", CostsJson(r.expected))
      .Add("cells", cells);
}

void PrintHead(Output& out, const RowsReport& r) {
  const Geometry& g = r.geometry;
  out.Line(fmt::format(
      "{}: {} heads, n {}, r {}, v {}, Rk {}; {} {}, {} threads, peak {:.3f} TFLOP/s", g.name,
      g.heads, g.nope, g.rope, g.v_dim, g.kv_rank, r.isa, r.kernel, r.threads, r.peak_tflops));
  const auto line = [&](const std::string& what, const RowsReport::Costs& c) {
    out.Line(fmt::format(
        "{}, per head and thread: absorbed {:.2f} ns a pair; up-projected {:.1f} ns a key, {:.3f} "
        "ns a pair; in keys of 16 heads: task {:.1f}, merge {:.1f}",
        what, c.absorbed_pair_ns, c.up_key_ns, c.up_pair_ns, c.task_keys, c.merge_keys));
  };
  line(fmt::format("costs measured in {:.1f} ms", r.calibration_ms), r.measured);
  line("what auto expects", r.expected);
  out.Line("");
  out.Line(fmt::format("{:>8}{:>6}  {:<13}{:>11}{:>10}{:>7}  {:<9} {}", "context", "rows", "arm",
                       "ms", "TFLOP/s", "limit", "unit", "paths"));
}

void PrintCell(Output& out, const RowsCell& cell) {
  for (const RowsArm& arm : cell.arms) {
    const std::string ratio = arm.arm == "auto" && cell.auto_over_best > 0
                                  ? fmt::format(" best*{:.3f}", cell.auto_over_best)
                                  : "";
    out.Line(fmt::format("{:>8}{:>6}  {:<13}{:>11.4f}{:>10.4f}{:>6}%  {:<9} paths={}{}",
                         cell.context, cell.rows, arm.arm, arm.ms, arm.tflops,
                         std::lround(100 * arm.tflops / arm.peak_tflops), arm.kernel,
                         FormatPaths(arm.paths), ratio));
  }
  if (cell.arms.empty()) {
    out.Line(fmt::format("{:>8}{:>6}  too slow for --max-ms", cell.context, cell.rows));
  }
}

int RunRows(RowsArgs& args) {
  args.options.geometry = args.geometry.Get();
  WarnOfThreads(args.options.threads);
  Output out;
  const RowsReport report = RunRowsBench(args.options, [&](const RowsReport& so_far) {
    if (args.json) return;
    if (so_far.cells.size() == 1) PrintHead(out, so_far);
    PrintCell(out, so_far.cells.back());
    out.Flush();
  });
  if (args.json) {
    out.Line(ReportJson(report).Text());
  } else {
    const RowsCell* worst = nullptr;
    for (const RowsCell& cell : report.cells) {
      if (worst == nullptr || cell.auto_over_best > worst->auto_over_best) worst = &cell;
    }
    if (worst != nullptr && worst->auto_over_best > 0) {
      out.Line(
          fmt::format("auto takes at most {:.3f} of the better forced path's time (context "
                      "{}, rows {})",
                      worst->auto_over_best, worst->context, worst->rows));
    }
  }
  out.Flush();
  return 0;
}

void AddRows(Command bench, bool prefill) {
  constexpr int64_t kMax = int64_t{1} << 31;
  Command command =
      prefill ? bench.AddSubcommand("prefill", "Steps of several rows, every form of attention")
              : bench.AddSubcommand("crossover", "Where --attention auto changes its path");
  auto args = std::make_shared<RowsArgs>(command, prefill);
  RowsOptions& o = args->options;
  AddIntegerList(command, "--contexts", 1, kMax,
                 prefill ? "Keys that the last row sees (default: 512,2048,8192)"
                         : "Keys that the last row sees (default: 128,512,2048,8192,32768)",
                 o.contexts);
  AddIntegerList(
      command, "--rows", 1, 65536,
      prefill ? "Query rows (default: 16,128,512)" : "Query rows (default: 1,2,4,16,128,512)",
      o.rows);
  AddInteger(command, "--repeats", 1, kMax, "Timed steps per arm (default: 5)",
             [&o](int64_t n) { o.repeats = n; });
  AddNumber(command, "--max-ms", 0.001, 1e9,
            "Leave arms out that would take longer (default: 2000)",
            [&o](double x) { o.most_ms = x; });
  AddCacheType(command, "--dtype", "Element type of the cache (default: bf16)", o.dtype);
  AddThreadsOption(command, o.threads);
  AddIsaOption(command, o.isa);
  AddJsonFlag(command, "Print one JSON object", args->json);
  command.SetFooter(
      prefill ? "One sequence, one layer; the arms are timed interleaved. The limit "
                "is the peak of the arm's\nunit with all threads, in registers.\n\nExamples:\n"
                "  mla bench prefill\n"
                "  mla bench prefill --like deepseek-v3 --rows 128 --contexts 2048\n"
              : "The costs are measured first, for comparison with what auto goes by; "
                "then every forced path\nand auto, interleaved. The last line names "
                "the cell where auto does worst.\n\nExamples:\n"
                "  mla bench crossover\n"
                "  mla bench crossover --like deepseek-v3 --max-ms 500 --json\n");
  command.SetAction([args] { return RunRows(*args); });
}

}  // namespace

void AddBenchRows(Command bench) {
  AddRows(bench, true);
  AddRows(bench, false);
}

}  // namespace mla
