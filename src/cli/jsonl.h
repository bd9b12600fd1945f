// JSON-lines mode: one object per line in, one per line out.
// Called by: tokenize, detokenize. Thread-safety: reads a descriptor; one thread at a time.
#ifndef MLA_CLI_JSONL_H_
#define MLA_CLI_JSONL_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/json.h"

namespace mla {

/// Calls `answer(line, where)` for every line of the file (nothing or "-": standard input) and
/// writes what it returns as one line, at once, so that another program can talk to this one. Blank
/// lines are skipped; `where` names the file and line for messages. An Error of `answer` passes on
/// with `where` in front, after everything that was answered before has been written.
void AnswerLines(const std::optional<std::string>& file,
                 const std::function<JsonText(std::string_view, const std::string&)>& answer);

}  // namespace mla

#endif  // MLA_CLI_JSONL_H_
