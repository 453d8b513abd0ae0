#include "cli/elsewhere.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/commands.h"
#include "cosformer/error.h"

namespace cosformer::cli {
namespace {

// Beside this executable, as git keeps its own.
[[noreturn]] void RunTraining(char** argv) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string other = (self.parent_path() / "cosformer-train").string();
  if (error || access(other.c_str(), X_OK) != 0) {
    throw Error(
        "this subcommand needs cosformer-train beside cosformer, and it is not there: it comes "
        "with "
        "a build that has libtorch (cmake -DCOSFORMER_TORCH=ON)");
  }
  execv(other.c_str(), argv);
  throw Error(fmt::format("{} cannot be started: {}", other, std::strerror(errno)));
}

}  // namespace

void AddElsewhere(CLI::App& parent, const char* name, const char* summary, char** argv) {
  CLI::App* app = parent.add_subcommand(name, summary);
  app->set_help_flag();  // the other program's help
  app->prefix_command();
  app->callback([argv] { RunTraining(argv); });
}

void AddTrainingElsewhere(CLI::App& app, char** argv) {
  AddElsewhere(app, "train", "Trains a model on your data", argv);
  AddElsewhere(app, "eval", "Evaluates a trained model: perplexity or accuracy", argv);
}

}  // namespace cosformer::cli
