// The command `cosformer-train`: the subcommands that need libtorch, which `cosformer` hands over.
#include <string_view>

#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "train/process.h"

int main(int argc, char** argv) {
  cosformer::PrepareProcess(argv);
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "train") return cosformer::cli::RunTrain(argc - 1, argv + 1);
  if (command == "eval") return cosformer::cli::RunEval(argc - 1, argv + 1);
  CLI::App app("The subcommands of cosformer that need libtorch: train, eval, bench model.",
               "cosformer");
  app.set_version_flag("--version", "cosformer " COSFORMER_VERSION);
  app.require_subcommand(1);
  cosformer::cli::AddModelBench(*cosformer::cli::AddBench(app));
  return cosformer::cli::RunProgram(app, argc, argv);
}
