// The command `cosformer-train`: the subcommands that need libtorch, which `cosformer` hands over.
#include "cli/bench.h"
#include "cli/program.h"
#include "train/process.h"

int main(int argc, char** argv) {
  cosformer::PrepareProcess(argv);
  CLI::App app("The subcommands of cosformer that need libtorch.", "cosformer");
  app.set_version_flag("--version", "cosformer " COSFORMER_VERSION);
  app.require_subcommand(1);
  cosformer::cli::AddModelBench(*cosformer::cli::AddBench(app));
  return cosformer::cli::RunProgram(app, argc, argv);
}
