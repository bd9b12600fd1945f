// Standard output whose every write is checked, the log on standard error, and the process's
// signals. Called by: the commands. Thread-safety: Output belongs to one thread; the rest is
// async-signal-safe or called once at start.
#ifndef MLA_CLI_OUTPUT_H_
#define MLA_CLI_OUTPUT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "mla/log.h"

namespace mla {

/// Buffered standard output. A closed pipe, a full disk or a closed descriptor is an Error{kIo},
/// never a signal and never silence.
class Output {
 public:
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void Write(std::string_view text);
  void Line(std::string_view text);  ///< text and a line break
  void Flush();                      ///< hands everything to the system

 private:
  std::string buffer_;
};

/// One line on standard error; failures to write there are ignored.
void PrintError(std::string_view line);

/// kNotice and kWarning always go to standard error, kInfo and kDebug only if `verbose`.
LogSink StderrLog(bool verbose);

/// True if standard error is a terminal (progress is shown only then).
bool StderrIsTerminal();

/// Gives closed descriptors 0-2 a placeholder that fails on use, so that no file opened later takes
/// their number, and ignores SIGPIPE, so that a closed pipe is a failed write.
void PrepareStandardStreams();

/// From now on Ctrl-C, and SIGTERM if `terminate`, only raises a flag; a second one ends the
/// process with InterruptStatus().
void CatchInterrupt(bool terminate = false);
bool Interrupted() noexcept;
/// Exit status of a run that a signal ended: 130 after Ctrl-C, 143 after SIGTERM.
int InterruptStatus() noexcept;

/// Largest resident set of this process so far, bytes.
int64_t PeakResidentBytes();

/// Bytes that this process has in memory beside the files ending in `data_suffix` that it mapped:
/// heap, stacks, libraries, and the whole program, whose code is paged in as it runs. 0 where the
/// system does not say.
int64_t ProgramMemory(std::string_view data_suffix);

}  // namespace mla

#endif  // MLA_CLI_OUTPUT_H_
