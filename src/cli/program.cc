// What the executables share: see program.h.
#include "cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cosformer/error.h"
#include "report/out_of_memory.h"

namespace cosformer::cli {
namespace {

int Fail(int code, const std::string& sentence) {
  fmt::print(stderr, "cosformer: {}\n", sentence);
  return code;
}

const CLI::App& Innermost(const CLI::App& app) {
  return app.get_subcommands().empty() ? app : Innermost(*app.get_subcommands().front());
}

// The subcommand that was given, as the user would type it: "cosformer bench attention".
std::string CommandOf(const CLI::App& app) {
  const CLI::App* innermost = &app;
  std::string command = app.get_name();
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().front();
    command += " " + innermost->get_name();
  }
  return command;
}

// Why the command line could not be understood. CLI11 would answer a mistyped subcommand by asking
// for a subcommand, and a mistyped option together with its innocent values.
std::string Complaint(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (unknown.empty()) return error.what();
  // Options that follow a mistyped subcommand are innocent too.
  if (Innermost(app).get_require_subcommand_min() > 0 && !unknown[0].starts_with("-")) {
    return fmt::format("\"{}\" is not known here", unknown[0]);
  }
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& word) { return word.starts_with("-"); });
  return fmt::format("\"{}\" is not known here", option != unknown.end() ? *option : unknown[0]);
}

// A list of subcommands has the first line of what each says of itself.
class BriefFormatter : public CLI::Formatter {
 public:
  using CLI::Formatter::Formatter;

  std::string make_subcommand(const CLI::App* subcommand) const override {
    const std::string description = subcommand->get_description();
    std::stringstream out;
    CLI::detail::format_help(out, subcommand->get_display_name(true),
                             description.substr(0, description.find('\n')), column_width_);
    return out.str();
  }
};

// Those that have a list; the others keep the widths of their columns.
void ListBriefly(CLI::App& app) {
  const std::vector<CLI::App*> subcommands = app.get_subcommands({});
  if (subcommands.empty()) return;
  const size_t width = app.get_formatter()->get_column_width();
  auto formatter = std::make_shared<BriefFormatter>();
  formatter->column_width(width);
  app.formatter(formatter);
  for (CLI::App* subcommand : subcommands) ListBriefly(*subcommand);
}

int Parse(CLI::App& app, std::vector<std::string> words) {
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return Fail(2, fmt::format("{} (see {} --help)", Complaint(app, error), CommandOf(app)));
  }
  return 0;
}

}  // namespace

int RunProgram(CLI::App& app, int argc, char** argv) {
  return RunProgram(app, std::vector<std::string>(argv + 1, argv + argc));
}

int RunProgram(CLI::App& app, std::vector<std::string> words) {
  ListBriefly(app);
  // A file larger than the user may write is an error of the write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return Parse(app, std::move(words));
  } catch (const report::OutOfMemory& error) {
    return Fail(report::kOutOfMemoryExit, error.what());
  } catch (const Error& error) {
    return Fail(1, error.what());
  } catch (const std::bad_alloc&) {
    return Fail(report::kOutOfMemoryExit,
                "out of memory: take shorter texts, smaller batches or a smaller model");
  } catch (const std::exception& error) {
    // libtorch's go on with a backtrace.
    const std::string what = error.what();
    return Fail(1, fmt::format("unexpected error: {}", what.substr(0, what.find('\n'))));
  }
}

}  // namespace cosformer::cli
