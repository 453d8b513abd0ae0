// `cosformer bench` itself, and its way to the program that has libtorch.
#include "cli/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

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

CLI::App* AddBench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Time parts of cosFormer on this machine");
  bench->require_subcommand(1);
  return bench;
}

void AddModelBenchElsewhere(CLI::App& bench, char** argv) {
  CLI::App* model = bench.add_subcommand("model", "Times whole models, forward and in training");
  model->set_help_flag();  // the other program's help
  model->prefix_command();
  model->callback([argv] { RunTraining(argv); });
}

}  // namespace cosformer::cli
