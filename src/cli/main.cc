// The command `cosformer`: the parts that need no libtorch, and the way to those that do.
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Transformers whose attention costs O(N): cosFormer, and what it is measured against.",
      "cosformer");
  app.set_version_flag("--version", "cosformer " COSFORMER_VERSION);
  app.require_subcommand(1);
  app.footer("\nExample: cosformer bench attention --lengths 512,4096 --plot attention.svg");
  CLI::App* bench = cosformer::cli::AddBench(app);
  cosformer::cli::AddAttentionBench(*bench);
  cosformer::cli::AddModelBenchElsewhere(*bench, argv);
  cosformer::cli::AddPlot(app);
  return cosformer::cli::RunProgram(app, argc, argv);
}
