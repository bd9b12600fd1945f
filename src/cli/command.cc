#include "cli/command.h"

#include <utility>

#include <CLI/CLI.hpp>

namespace mla {

Command Command::AddSubcommand(const std::string& name, const std::string& description) {
  return {*app_->add_subcommand(name, description), *chosen_};
}

void Command::RequireSubcommand() { app_->require_subcommand(1); }

void Command::SetFooter(const std::string& text) { app_->footer(text); }

void Command::SetAction(Action action) {
  app_->callback([chosen = chosen_, action = std::move(action)] { *chosen = action; });
}

void Command::AddFlag(const std::string& names, const std::string& description,
                      std::function<void()> set) {
  app_->add_flag_callback(names, std::move(set), description);
}

void Command::AddText(const std::string& names, const std::string& kind,
                      const std::string& description, std::function<void(const std::string&)> set,
                      bool required) {
  app_->add_option_function<std::string>(names, set, description)
      ->type_name(kind)
      ->required(required);
}

void Command::AddRepeated(const std::string& names, const std::string& kind,
                          const std::string& description, std::vector<std::string>& values) {
  // Without extra arguments: "--stop a b" must not take b, and "[x]" must stay one value.
  app_->add_option(names, values, description)->type_name(kind)->allow_extra_args(false);
}

Program::Program(const std::string& name, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->require_subcommand(0, 1);
}

Program::~Program() = default;

Command Program::root() { return {*app_, chosen_}; }

Program::Parsed Program::Parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {Parsed::Kind::kHelp, app_->help(), {}};
  } catch (const CLI::ExtrasError&) {
    // The library's own message names them in reverse.
    constexpr bool kOfSubcommands = true;
    std::string extras;
    for (const std::string& extra : app_->remaining(kOfSubcommands)) extras += " " + extra;
    return {Parsed::Kind::kError, "unexpected arguments:" + extras, {}};
  } catch (const CLI::ParseError& error) {
    return {Parsed::Kind::kError, error.what(), {}};
  }
  return {Parsed::Kind::kRun, {}, chosen_};
}

std::string Program::Help() const { return app_->help(); }

std::string Program::CommandName() const {
  const CLI::App* at = app_.get();
  std::string name = at->get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

}  // namespace mla
