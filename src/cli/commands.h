// The commands of the program: each adds itself, with its options and what it runs.
// Called by: main.cc of this room. Thread-safety: the main thread only.
#ifndef MLA_CLI_COMMANDS_H_
#define MLA_CLI_COMMANDS_H_

#include <string>

#include "cli/command.h"

namespace mla {

void AddGenerate(Command root);
void AddLogits(Command root);
void AddPerplexity(Command root);
void AddTokenize(Command root);
void AddDetokenize(Command root);
void AddInspect(Command root);
void AddFootprint(Command root);
void AddBench(Command root);
void AddBenchPeaks(Command bench);
void AddBenchRows(Command bench);

/// What `mla --version` prints, without the last line break.
std::string VersionText();

}  // namespace mla

#endif  // MLA_CLI_COMMANDS_H_
