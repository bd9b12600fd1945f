#include "mla/error.h"

namespace mla {
namespace {

// The one table of codes. The server's HTTP status will be a further column.
struct Row {
  ErrorCode code;
  const char* name;
  int exit_status;
};

constexpr Row kTable[] = {
    {ErrorCode::kUsage, "usage", 2},
    {ErrorCode::kNotFound, "not_found", 2},
    {ErrorCode::kBadInput, "bad_input", 2},
    {ErrorCode::kUnsupported, "unsupported", 2},
    {ErrorCode::kContextFull, "context_full", 1},
    {ErrorCode::kNumeric, "numeric", 1},
    {ErrorCode::kIo, "io", 1},
    {ErrorCode::kResource, "resource", 1},
    {ErrorCode::kInternal, "internal", 1},
};

const Row& Find(ErrorCode code) noexcept {
  for (const Row& row : kTable) {
    if (row.code == code) return row;
  }
  return kTable[sizeof(kTable) / sizeof(kTable[0]) - 1];
}

}  // namespace

const char* ErrorCodeName(ErrorCode code) noexcept { return Find(code).name; }

int ExitStatus(ErrorCode code) noexcept { return Find(code).exit_status; }

}  // namespace mla
