#include <memory>

#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/units.h"
#include "mla/engine.h"

namespace mla {
namespace {

struct InspectArgs {
  EngineArgs engine;
  bool json = false;
};

/// What a run keeps in memory: the weights (mapped and converted), the fold's extra, cache,
/// scratch.
int64_t TotalBytes(const ModelInfo& info, const MemoryPlan& plan) {
  return info.weight_bytes + info.converted_bytes + info.fold_extra_bytes + plan.cache_bytes +
         plan.scratch_bytes;
}

Json GeometryJson(const ModelInfo& info) {
  return Json{{"layers", info.layers},
              {"moe_layers", info.moe_layers},
              {"hidden", info.hidden},
              {"vocab", info.vocab},
              {"heads", info.heads},
              {"nope", info.nope},
              {"rope", info.rope},
              {"v_dim", info.v_dim},
              {"rank", info.kv_rank},
              {"q_rank", info.q_rank},
              {"experts", info.experts},
              {"experts_per_token", info.experts_per_token},
              {"shared_experts", info.shared_experts},
              {"max_positions", info.max_positions}};
}

Json InspectJson(const Model& model, const MemoryPlan& plan, const SessionOptions& session) {
  const ModelInfo& info = model.info();
  Json kinds = Json::array();
  for (const NamedBytes& kind : info.kinds) {
    kinds.push_back({{"kind", kind.kind}, {"parameters", kind.parameters}, {"bytes", kind.bytes}});
  }
  return Json{{"family", info.family},
              {"parameters", info.parameters},
              {"geometry", GeometryJson(info)},
              {"weights",
               {{"file_bytes", info.file_bytes},
                {"bytes", info.weight_bytes},
                {"converted_bytes", info.converted_bytes},
                {"kinds", kinds}}},
              {"fold",
               {{"layers", info.fold_layers},
                {"elements", info.fold_elements},
                {"extra_bytes", info.fold_extra_bytes},
                {"format", info.fold_format},
                {"decline", info.fold_decline}}},
              {"cache",
               {{"attention", AttentionName(*session.attention)},
                {"type", CacheTypeName(session.cache_type)},
                {"context", session.context},
                {"latent_bytes_per_token", plan.latent_bytes_per_token},
                {"decompressed_bytes_per_token", plan.decompressed_bytes_per_token},
                {"latent_bytes", plan.latent_bytes_per_token * session.context},
                {"decompressed_bytes", plan.decompressed_bytes_per_token * session.context},
                {"bytes", plan.cache_bytes}}},
              {"scratch_bytes", plan.scratch_bytes},
              {"total_bytes", TotalBytes(info, plan)},
              {"isa", model.isa()},
              {"threads", model.threads()}};
}

void PrintModel(Output& out, const ModelInfo& info) {
  out.Line(fmt::format("family       {}", info.family));
  out.Line(fmt::format("parameters   {}", info.parameters));
  out.Line(
      fmt::format("shape        {} layers ({} with experts), hidden {}, vocabulary {}, trained "
                  "length {}",
                  info.layers, info.moe_layers, info.hidden, info.vocab, info.max_positions));
  out.Line(fmt::format("attention    {} heads, n {}, r {}, v {}, Rk {}, Rq {}", info.heads,
                       info.nope, info.rope, info.v_dim, info.kv_rank,
                       info.q_rank > 0 ? std::to_string(info.q_rank) : "none (direct q_proj)"));
  if (info.experts > 0) {
    out.Line(fmt::format("experts      {} routed, {} per token, {} shared", info.experts,
                         info.experts_per_token, info.shared_experts));
  }
  out.Line("");
  out.Line(fmt::format("{:<24}{:>16}{:>14}", "weights", "parameters", "bytes"));
  for (const NamedBytes& kind : info.kinds) {
    out.Line(
        fmt::format("  {:<22}{:>16}{:>14}", kind.kind, kind.parameters, FormatBytes(kind.bytes)));
  }
  out.Line(fmt::format("  {:<22}{:>16}{:>14}", "total", info.parameters,
                       FormatBytes(info.weight_bytes)));
}

void PrintMemory(Output& out, const ModelInfo& info, const MemoryPlan& plan,
                 const SessionOptions& session) {
  const int64_t context = session.context;
  out.Line("");
  out.Line(fmt::format("{:<24}{:>16}{:>14}",
                       fmt::format("cache ({})", CacheTypeName(session.cache_type)),
                       "bytes per token", fmt::format("at {}", context)));
  out.Line(fmt::format("  {:<22}{:>16}{:>14}", "latent", plan.latent_bytes_per_token,
                       FormatBytes(plan.latent_bytes_per_token * context)));
  out.Line(fmt::format("  {:<22}{:>16}{:>14}", "decompressed", plan.decompressed_bytes_per_token,
                       FormatBytes(plan.decompressed_bytes_per_token * context)));
  out.Line("");
  out.Line(fmt::format("memory of a run with --attention {} --ctx {}",
                       AttentionName(*session.attention), context));
  const auto line = [&out](const char* name, int64_t bytes, const std::string& remark) {
    out.Line(fmt::format("  {:<22}{:>16}{:>14}  {}", name, bytes, FormatBytes(bytes), remark));
  };
  line("weights", info.weight_bytes, "mapped from the file");
  line("converted", info.converted_bytes, "copied out of the mapping");
  line("fold", info.fold_extra_bytes,
       fmt::format("{} of {} layers, {} elements, {}", info.fold_layers, info.layers,
                   info.fold_elements, info.fold_format));
  line("cache", plan.cache_bytes, "");
  line("scratch", plan.scratch_bytes, "whatever the context");
  line("total", TotalBytes(info, plan), "");
  if (!info.fold_decline.empty()) out.Line("not folded: " + info.fold_decline);
}

int RunInspect(InspectArgs& args) {
  ResolveEngineArgs(args.engine);
  const Model model = Model::Load(args.engine.model, args.engine.load);
  SessionOptions& session = args.engine.session;
  if (session.context == 0) session.context = model.info().max_positions;
  const MemoryPlan plan = model.Plan(session);
  Output out;
  if (args.json) {
    out.Line(Dump(InspectJson(model, plan, session)));
  } else {
    PrintModel(out, model.info());
    PrintMemory(out, model.info(), plan, session);
  }
  out.Flush();
  return 0;
}

}  // namespace

void AddInspect(CLI::App& app, Action& action) {
  auto args = std::make_shared<InspectArgs>();
  CLI::App* sub = app.add_subcommand("inspect", "Show a model's shape and what a run of it costs");
  AddEngineOptions(*sub, args->engine);
  sub->add_flag("--json", args->json, "Print one JSON object");
  sub->footer(
      "The cache is counted at --ctx tokens (default: the trained length).\n"
      "\n"
      "Examples:\n"
      "  mla inspect -m models/stories-mla\n"
      "  mla inspect -m models/stories-mla --ctx 512 --attention absorbed --json\n");
  sub->callback([args, &action] { action = [args] { return RunInspect(*args); }; });
}

}  // namespace mla
