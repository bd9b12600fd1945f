// A command of the program with its options, and the program that holds them. Only command.cc sees
// the parser library: its header alone takes ten seconds to compile.
// Called by: main and the commands. Thread-safety: the main thread only.
#ifndef MLA_CLI_COMMAND_H_
#define MLA_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mla {

/// What to run; returns the exit status, may throw Error.
using Action = std::function<int()>;

/// A handle; copies refer to the same command. `names` is like "-m,--model" or "--json". Setters
/// run while the command line is parsed and may throw Error{kUsage}.
class Command {
 public:
  Command(CLI::App& app, Action& chosen) : app_(&app), chosen_(&chosen) {}

  Command AddSubcommand(const std::string& name, const std::string& description);
  /// The user must name a subcommand.
  void RequireSubcommand();
  void SetFooter(const std::string& text);
  void SetAction(Action action);

  void AddFlag(const std::string& names, const std::string& description, std::function<void()> set);
  /// An option with one value of the given kind ("N", "FILE"), given at most once.
  void AddText(const std::string& names, const std::string& kind, const std::string& description,
               std::function<void(const std::string&)> set, bool required = false);
  /// The same, but may be given several times.
  void AddRepeated(const std::string& names, const std::string& kind,
                   const std::string& description, std::vector<std::string>& values);

 private:
  CLI::App* app_;
  Action* chosen_;  // of the whole program: set when parsing meets the command
};

class Program {
 public:
  Program(const std::string& name, const std::string& description);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Command root();

  struct Parsed {
    enum class Kind { kRun, kHelp, kError } kind = Kind::kRun;
    std::string text;  ///< the help, or what is wrong
    Action action;     ///< empty if no command was named
  };
  Parsed Parse(int argc, char** argv);

  std::string Help() const;         ///< of the commands named on the command line
  std::string CommandName() const;  ///< "mla generate": the commands that were recognised

 private:
  std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace mla

#endif  // MLA_CLI_COMMAND_H_
