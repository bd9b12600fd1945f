#include "cli/main.h"

#include <exception>
#include <new>
#include <string>

#include "cli/commands.h"
#include "cli/output.h"
#include "mla/error.h"

namespace mla {
namespace {

constexpr int kRuntimeStatus = 1;
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

void PrintAll(const std::string& text) {
  Output out;
  out.Line(text);
  out.Flush();
}

int Report(const std::string& message, int status) {
  PrintError("mla: error: " + message);
  return status;
}

int ReportUsage(const Program& program, const std::string& message) {
  Report(message, kUsageStatus);
  // What a variable says is not on the command line, so its options are no help.
  if (message.starts_with("environment variable ")) return kUsageStatus;
  PrintError("Run '" + program.CommandName() + " --help' for the options.");
  return kUsageStatus;
}

/// Parses and runs; may throw anything that Main maps.
int Run(Program& program, int argc, char** argv) {
  bool version = false;
  Command root = program.root();
  root.SetFooter(kFooter);
  root.AddFlag("--version", "Version, compiler and instruction sets, then exit",
               [&version] { version = true; });
  for (const auto add : {AddGenerate, AddLogits, AddPerplexity, AddTokenize, AddDetokenize,
                         AddInspect, AddFootprint, AddBench}) {
    add(root);
  }
  const Program::Parsed parsed = program.Parse(argc, argv);
  switch (parsed.kind) {
    case Program::Parsed::Kind::kHelp:
      PrintAll(parsed.text);
      return 0;
    case Program::Parsed::Kind::kError:
      return ReportUsage(program, parsed.text);
    case Program::Parsed::Kind::kRun:
      break;
  }
  if (version) {
    PrintAll(VersionText());
    return 0;
  }
  if (!parsed.action) {
    PrintError(program.Help());
    return kUsageStatus;
  }
  return parsed.action();
}

}  // namespace

int Main(int argc, char** argv) {
  PrepareStandardStreams();
  Program program("mla", "CPU inference for models with multi-head latent attention (MLA)");
  try {
    return Run(program, argc, argv);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUsage) return ReportUsage(program, error.what());
    return Report(error.what(), ExitStatus(error.code()));
  } catch (const std::bad_alloc&) {
    return Report("out of memory; try a smaller --ctx or --prefill-chunk", kRuntimeStatus);
  } catch (const std::exception& error) {
    return Report(error.what(), kRuntimeStatus);
  }
}

}  // namespace mla
