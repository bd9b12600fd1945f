// The options that several commands share, each defined once, and checked numbers.
// Called by: the commands. Thread-safety: used while the command line is parsed.
#ifndef MLA_CLI_OPTIONS_H_
#define MLA_CLI_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "mla/options.h"
#include "mla/tools.h"

namespace mla {

/// -m and the switches of loading and running a model.
struct EngineArgs {
  std::string model;
  LoadOptions load;
  SessionOptions session;
  bool verbose = false;
};

/// Adds -m,--model (required).
void AddModelOption(Command command, std::string& model);

/// Adds -m and --attention --threads --isa --kernels --compute --cache-type --ctx --prefill-chunk
/// --deterministic --verbose.
void AddEngineOptions(Command command, EngineArgs& args);
void AddThreadsOption(Command command, int& threads);
void AddIsaOption(Command command, std::string& isa);

/// Adds --like and the single widths --heads --rank --nope --rope --v-dim --layers, which override
/// what --like gives whatever their order. Call `geometry()` after parsing.
class GeometryOptions {
 public:
  GeometryOptions(Command command, std::string default_name);
  /// Throws kUsage for an unknown --like.
  Geometry Get() const;

 private:
  std::string like_;
  std::vector<std::pair<int64_t Geometry::*, int64_t>> overrides_;
};

/// Adds --json.
void AddJsonFlag(Command command, const std::string& description, bool& json);

/// Number options: exactly one number within [min, max]; anything else (blank, trailing text, NaN,
/// overflow) throws Error{kUsage} naming the option, the range and what was found.
void AddInteger(Command command, const std::string& names, int64_t min, int64_t max,
                const std::string& description, std::function<void(int64_t)> set);
void AddNumber(Command command, const std::string& names, double min, double max,
               const std::string& description, std::function<void(double)> set);
/// A comma-separated list of integers.
void AddIntegerList(Command command, const std::string& names, int64_t min, int64_t max,
                    const std::string& description, std::vector<int64_t>& list);
/// --cache-type, --dtype ...
void AddCacheType(Command command, const std::string& names, const std::string& description,
                  CacheType& type);

/// Parsing behind the above; `name` is the option for messages.
int64_t ParseInteger(const std::string& text, int64_t min, int64_t max, const std::string& name);
enum class Lowest { kIncluded, kExcluded };  ///< whether `min` itself is allowed
double ParseNumber(const std::string& text, double min, double max, const std::string& name,
                   Lowest lowest = Lowest::kIncluded);
std::vector<int64_t> ParseIntegerList(const std::string& text, int64_t min, int64_t max,
                                      const std::string& name);

/// A remark on standard error if there are more threads than CPUs.
void WarnOfThreads(int threads);

/// Fills in what the flags left open: the attention setting from the environment and the log sink.
/// Remarks about them and the threads go to standard error.
void ResolveEngineArgs(EngineArgs& args);

}  // namespace mla

#endif  // MLA_CLI_OPTIONS_H_
