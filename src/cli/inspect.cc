#include <algorithm>
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

/// What a run keeps in memory.
struct RunMemory {
  MemoryPlan plan;
  int64_t program = 0;  ///< code, libraries, tokenizer, tables: measured after loading
  int64_t total = 0;
};

RunMemory MeasureRun(const Model& model, const SessionOptions& session) {
  const ModelInfo& info = model.info();
  RunMemory memory{.plan = model.Plan(session)};
  memory.program = std::max<int64_t>(
      0, ProgramMemory(".safetensors") - info.converted_bytes - info.fold_extra_bytes);
  // The weights include those that were copied out of the mapping.
  memory.total = memory.program + info.weight_bytes + info.fold_extra_bytes +
                 memory.plan.cache_bytes + memory.plan.scratch_bytes;
  return memory;
}

JsonText ShapeJson(const ModelInfo& info) {
  return JsonText()
      .Add("layers", info.layers)
      .Add("moe_layers", info.moe_layers)
      .Add("hidden", info.hidden)
      .Add("vocab", info.vocab)
      .Add("heads", info.heads)
      .Add("nope", info.nope)
      .Add("rope", info.rope)
      .Add("v_dim", info.v_dim)
      .Add("rank", info.kv_rank)
      .Add("q_rank", info.q_rank)
      .Add("experts", info.experts)
      .Add("experts_per_token", info.experts_per_token)
      .Add("shared_experts", info.shared_experts)
      .Add("max_positions", info.max_positions);
}

JsonText WeightsJson(const ModelInfo& info) {
  std::vector<JsonText> kinds;
  for (const NamedBytes& kind : info.kinds) {
    kinds.push_back(JsonText()
                        .Add("kind", kind.kind)
                        .Add("parameters", kind.parameters)
                        .Add("bytes", kind.bytes));
  }
  return JsonText()
      .Add("file_bytes", info.file_bytes)
      .Add("bytes", info.weight_bytes)
      .Add("converted_bytes", info.converted_bytes)
      .Add("kinds", kinds);
}

JsonText InspectJson(const Model& model, const RunMemory& memory, const SessionOptions& session) {
  const ModelInfo& info = model.info();
  const MemoryPlan& plan = memory.plan;
  return JsonText()
      .Add("family", info.family)
      .Add("parameters", info.parameters)
      .Add("geometry", ShapeJson(info))
      .Add("weights", WeightsJson(info))
      .Add("fold", JsonText()
                       .Add("layers", info.fold_layers)
                       .Add("elements", info.fold_elements)
                       .Add("extra_bytes", info.fold_extra_bytes)
                       .Add("format", info.fold_format)
                       .Add("decline", info.fold_decline))
      .Add("cache",
           JsonText()
               .Add("attention", AttentionName(*session.attention))
               .Add("type", CacheTypeName(session.cache_type))
               .Add("context", session.context)
               .Add("latent_bytes_per_token", plan.latent_bytes_per_token)
               .Add("decompressed_bytes_per_token", plan.decompressed_bytes_per_token)
               .Add("latent_bytes", plan.latent_bytes_per_token * session.context)
               .Add("decompressed_bytes", plan.decompressed_bytes_per_token * session.context)
               .Add("bytes", plan.cache_bytes))
      .Add("scratch_bytes", plan.scratch_bytes)
      .Add("program_bytes", memory.program)
      .Add("total_bytes", memory.total)
      .Add("isa", model.isa())
      .Add("threads", model.threads());
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

void PrintMemory(Output& out, const ModelInfo& info, const RunMemory& memory,
                 const SessionOptions& session) {
  const MemoryPlan& plan = memory.plan;
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
  line("weights", info.weight_bytes,
       fmt::format("mapped from the file, {} bytes of them converted", info.converted_bytes));
  line("fold", info.fold_extra_bytes,
       fmt::format("{} of {} layers, {} elements, {}", info.fold_layers, info.layers,
                   info.fold_elements, info.fold_format));
  line("cache", plan.cache_bytes, "");
  line("scratch", plan.scratch_bytes, "whatever the context");
  line("program", memory.program, "with libraries, tokenizer and tables");
  line("total", memory.total, "");
  if (!info.fold_decline.empty()) out.Line("not folded: " + info.fold_decline);
}

int RunInspect(InspectArgs& args) {
  ResolveEngineArgs(args.engine);
  const Model model = Model::Load(args.engine.model, args.engine.load);
  SessionOptions& session = args.engine.session;
  if (session.context == 0) session.context = model.info().max_positions;
  const RunMemory memory = MeasureRun(model, session);
  Output out;
  if (args.json) {
    out.Line(InspectJson(model, memory, session).Text());
  } else {
    PrintModel(out, model.info());
    PrintMemory(out, model.info(), memory, session);
  }
  out.Flush();
  return 0;
}

}  // namespace

void AddInspect(Command root) {
  auto args = std::make_shared<InspectArgs>();
  Command command =
      root.AddSubcommand("inspect", "Show a model's shape and what a run of it costs");
  AddEngineOptions(command, args->engine);
  AddJsonFlag(command, "Print one JSON object", args->json);
  command.SetFooter(
      "The cache is counted at --ctx tokens (default: the trained length).\n"
      "\n"
      "Examples:\n"
      "  mla inspect -m models/stories-mla\n"
      "  mla inspect -m models/stories-mla --ctx 512 --attention absorbed --json\n");
  command.SetAction([args] { return RunInspect(*args); });
}

}  // namespace mla
