// JSON-lines mode: one object per line in, one per line out.
// Called by: tokenize, detokenize. Thread-safety: reads a descriptor; one thread at a time.
#ifndef MLA_CLI_JSONL_H_
#define MLA_CLI_JSONL_H_

#include <functional>
#include <optional>
#include <string>

#include "cli/json.h"

namespace mla {

/// Calls `answer(object, where)` for every line of the file (nothing or "-": standard input) and
/// writes what it returns as one line, at once, so that another program can talk to this one. Empty
/// lines are skipped. Throws kBadInput naming the line if it is not a JSON object.
void AnswerLines(const std::optional<std::string>& file,
                 const std::function<Json(const Json&, const std::string& where)>& answer);

}  // namespace mla

#endif  // MLA_CLI_JSONL_H_
