// The program: parses the command line, runs the command, maps errors to exit statuses.
// Called by: apps/mla.cc. Thread-safety: once per process.
#ifndef MLA_CLI_MAIN_H_
#define MLA_CLI_MAIN_H_

namespace mla {

/// Returns the exit status: 0 success, 1 runtime error, 2 bad usage or bad input.
int Main(int argc, char** argv);

}  // namespace mla

#endif  // MLA_CLI_MAIN_H_
