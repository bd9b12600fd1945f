// The log sink: how the library says something without ever printing.
// Called by: model, engine (notices at load), the pool (fallbacks); set by applications.
// Thread-safety: a sink may be called from any thread, one call at a time per engine.
#ifndef MLA_LOG_H_
#define MLA_LOG_H_

#include <functional>
#include <string_view>

namespace mla {

/// kNotice is shown whatever the verbosity (the load line); kDebug only on request.
enum class LogLevel { kDebug, kInfo, kWarning, kNotice };

/// Receives one line without a line break. An empty sink drops everything.
using LogSink = std::function<void(LogLevel, std::string_view)>;

}  // namespace mla

#endif  // MLA_LOG_H_
