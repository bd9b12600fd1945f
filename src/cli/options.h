// The options that several commands share, each defined once, and checked numbers.
// Called by: the commands. Thread-safety: used while the command line is parsed.
#ifndef MLA_CLI_OPTIONS_H_
#define MLA_CLI_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

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
void AddModelOption(CLI::App& app, std::string& model);

/// Adds -m and --attention --threads --isa --kernels --compute --cache-type --ctx --prefill-chunk
/// --verbose.
void AddEngineOptions(CLI::App& app, EngineArgs& args);
void AddThreadsOption(CLI::App& app, int& threads);
void AddIsaOption(CLI::App& app, std::string& isa);

/// Adds --like and the single widths --heads --rank --nope --rope --v-dim --layers, which override
/// what --like gives whatever their order. Call `geometry()` after parsing.
class GeometryOptions {
 public:
  GeometryOptions(CLI::App& app, std::string default_name);
  /// Throws kUsage for an unknown --like.
  Geometry Get() const;

 private:
  std::string like_;
  std::vector<std::pair<int64_t Geometry::*, int64_t>> overrides_;
};

/// Number options: exactly one number within [min, max]; anything else (blank, trailing text, NaN,
/// overflow) throws Error{kUsage} naming the option, the range and what was found.
CLI::Option* AddInteger(CLI::App& app, const std::string& names, int64_t min, int64_t max,
                        std::function<void(int64_t)> set, const std::string& description);
CLI::Option* AddNumber(CLI::App& app, const std::string& names, double min, double max,
                       std::function<void(double)> set, const std::string& description);
/// A comma-separated list of integers.
CLI::Option* AddIntegerList(CLI::App& app, const std::string& names, int64_t min, int64_t max,
                            std::vector<int64_t>& list, const std::string& description);
/// --cache-type, --dtype ...
CLI::Option* AddCacheType(CLI::App& app, const std::string& names, CacheType& type,
                          const std::string& description);

/// Parsing behind the above; `name` is the option for messages.
int64_t ParseInteger(const std::string& text, int64_t min, int64_t max, const std::string& name);
double ParseNumber(const std::string& text, double min, double max, const std::string& name);
std::vector<int64_t> ParseIntegerList(const std::string& text, int64_t min, int64_t max,
                                      const std::string& name);

/// Fills in what the flags left open: the attention setting from the environment (a remark about it
/// goes to standard error) and the log sink.
void ResolveEngineArgs(EngineArgs& args);

}  // namespace mla

#endif  // MLA_CLI_OPTIONS_H_
