// The commands of the program: each adds itself to the parser and says what to run.
// Called by: main.cc of this room. Thread-safety: used by the main thread only.
#ifndef MLA_CLI_COMMANDS_H_
#define MLA_CLI_COMMANDS_H_

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace mla {

/// What the parsed command line asks for; returns the exit status, may throw Error.
using Action = std::function<int()>;

/// Each adds one subcommand to `app`; when it is the chosen one, parsing sets `action`.
void AddGenerate(CLI::App& app, Action& action);
void AddLogits(CLI::App& app, Action& action);
void AddPerplexity(CLI::App& app, Action& action);
void AddTokenize(CLI::App& app, Action& action);
void AddDetokenize(CLI::App& app, Action& action);
void AddInspect(CLI::App& app, Action& action);
void AddFootprint(CLI::App& app, Action& action);
void AddBench(CLI::App& app, Action& action);

/// What `mla --version` prints, without the last line break.
std::string VersionText();

}  // namespace mla

#endif  // MLA_CLI_COMMANDS_H_
