#include <memory>
#include <numeric>

#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/units.h"
#include "mla/tools.h"

namespace mla {
namespace {

struct FootprintArgs {
  explicit FootprintArgs(Command command) : geometry(command, "deepseek-v3") {}

  GeometryOptions geometry;
  int64_t kv_heads = 0;  ///< 0: 8, or the largest divisor of the heads below
  CacheType dtype = CacheType::kBf16;
  double budget_gib = 16;
  bool json = false;
};

void PrintTable(const Geometry& g, const std::vector<FootprintRow>& rows,
                const FootprintArgs& args) {
  Output out;
  out.Line(fmt::format("{}: {} layers, {} heads, n {}, r {}, v {}, Rk {}; {} cache, {} GiB", g.name,
                       g.layers, g.heads, g.nope, g.rope, g.v_dim, g.kv_rank,
                       CacheTypeName(args.dtype), args.budget_gib));
  out.Line("");
  out.Line(fmt::format("{:<17}{:>26}{:>9}{:>20}{:>20}", "", "per token and layer", "", "per token",
                       "context in"));
  out.Line(fmt::format("{:<17}{:>13}{:>13}{:>9}{:>20}{:>20}", "scheme", "elements", "bytes",
                       "/ MLA", "all layers", "the budget"));
  for (const FootprintRow& row : rows) {
    out.Line(fmt::format("{:<17}{:>13}{:>13}{:>9}{:>20}{:>20}", row.scheme, row.elements, row.bytes,
                         fmt::format("{:.1f}x", row.ratio), FormatBytes(row.bytes_all_layers),
                         row.tokens_in_budget));
  }
  out.Flush();
}

void PrintRowsJson(const Geometry& geometry, const std::vector<FootprintRow>& rows,
                   const FootprintArgs& args) {
  std::vector<JsonText> list;
  for (const FootprintRow& row : rows) {
    list.push_back(JsonText()
                       .Add("scheme", row.scheme)
                       .Add("elements", row.elements)
                       .Add("bytes", row.bytes)
                       .Add("ratio", row.ratio)
                       .Add("bytes_all_layers", row.bytes_all_layers)
                       .Add("tokens_in_budget", row.tokens_in_budget));
  }
  Output out;
  out.Line(JsonText()
               .Add("geometry", GeometryJson(geometry))
               .Add("dtype", CacheTypeName(args.dtype))
               .Add("budget_gib", args.budget_gib)
               .Add("rows", list)
               .Text());
  out.Flush();
}

int RunFootprint(const FootprintArgs& args) {
  const Geometry geometry = args.geometry.Get();
  const int64_t kv_heads = args.kv_heads > 0 ? args.kv_heads : std::gcd(geometry.heads, int64_t{8});
  const std::vector<FootprintRow> rows =
      Footprint(geometry, kv_heads, args.dtype, BytesFromGib(args.budget_gib));
  if (args.json) {
    PrintRowsJson(geometry, rows, args);
  } else {
    PrintTable(geometry, rows, args);
  }
  return 0;
}

}  // namespace

void AddFootprint(Command root) {
  Command command = root.AddSubcommand("footprint", "Compare the caches of MHA, GQA, MQA and MLA");
  auto args = std::make_shared<FootprintArgs>(command);
  AddInteger(command, "--kv-heads", 1, int64_t{1} << 20,
             "Groups of GQA; must divide the heads (default: 8, or the largest common divisor "
             "with 8)",
             [args](int64_t n) { args->kv_heads = n; });
  AddCacheType(command, "--dtype", "Element type (default: bf16)", args->dtype);
  AddNumber(command, "--kv-budget-gib", 0, kMaxBudgetGiB,
            "Memory for the cache of all layers, GiB (default: 16)",
            [args](double x) { args->budget_gib = x; });
  AddJsonFlag(command, "Print one JSON object", args->json);
  command.SetFooter(
      "Elements per token and layer: MHA H(n+v), GQA G(n+v), MQA n+v, MLA Rk+r; 'MLA "
      "decompressed'\n"
      "is the cache of the decompressed path, H(n+r+v).\n"
      "\n"
      "Examples:\n"
      "  mla footprint --like deepseek-v3 --kv-budget-gib 24\n"
      "  mla footprint --heads 16 --rank 512 --nope 128 --rope 64 --v-dim 128 --layers 27 "
      "--json\n");
  command.SetAction([args] { return RunFootprint(*args); });
}

}  // namespace mla
