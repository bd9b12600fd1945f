#include "cli/main.h"

#include <exception>
#include <new>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "mla/error.h"

namespace mla {
namespace {

constexpr int kUsageStatus = 2;

constexpr const char* kFooter =
    "Examples:\n"
    "  mla generate -m models/stories-mla -p 'Once upon a time'\n"
    "  mla generate -m models/stories-mla -p 'Once upon a time' --attention absorbed\n"
    "  mla inspect -m models/stories-mla\n"
    "  mla bench attention --like deepseek-v3 --contexts 4096 --batches 1\n"
    "\n"
    "Exit status: 0 success; 1 runtime error (writing failed, out of memory, a NaN in the model);\n"
    "2 bad usage or bad input. Results go to standard output, everything else to standard error.\n";

/// "mla generate" for messages: the program and the subcommands that were recognised.
std::string CommandName(const CLI::App& app) {
  std::string name = "mla";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

int Report(const std::string& message, int status, const std::string& hint = "") {
  PrintError("mla: error: " + message);
  if (!hint.empty()) PrintError(hint);
  return status;
}

/// Parses and runs; may throw anything that Main maps.
int Run(CLI::App& app, int argc, char** argv, const Action& action, const bool& version) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    Output out;
    out.Write(app.help());
    out.Flush();
    return 0;
  } catch (const CLI::ParseError& error) {
    return Report(error.what(), kUsageStatus,
                  "Run '" + CommandName(app) + " --help' for the options.");
  }
  if (version) {
    Output out;
    out.Line(VersionText());
    out.Flush();
    return 0;
  }
  if (!action) {
    PrintError(app.help());
    return kUsageStatus;
  }
  return action();
}

}  // namespace

int Main(int argc, char** argv) {
  PrepareStandardStreams();
  CLI::App app("CPU inference for models with multi-head latent attention (MLA)", "mla");
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  bool version = false;
  app.add_flag("--version", version, "Version, compiler and instruction sets, then exit");
  Action action;
  AddGenerate(app, action);
  AddLogits(app, action);
  AddPerplexity(app, action);
  AddTokenize(app, action);
  AddDetokenize(app, action);
  AddInspect(app, action);
  AddFootprint(app, action);
  AddBench(app, action);
  try {
    return Run(app, argc, argv, action, version);
  } catch (const Error& error) {
    return Report(error.what(), ExitStatus(error.code()),
                  error.code() == ErrorCode::kUsage
                      ? "Run '" + CommandName(app) + " --help' for the options."
                      : "");
  } catch (const std::bad_alloc&) {
    return Report("out of memory; try a smaller --ctx or --prefill-chunk", 1);
  } catch (const std::exception& error) {
    return Report(error.what(), 1);
  }
}

}  // namespace mla
