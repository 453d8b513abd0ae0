// `cosformer bench` itself, and its way to the program that has libtorch.
#include "cli/bench.h"

#include "cli/elsewhere.h"

namespace cosformer::cli {

CLI::App* AddBench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Time parts of cosFormer on this machine");
  bench->require_subcommand(1);
  return bench;
}

void AddModelBenchElsewhere(CLI::App& bench, char** argv) {
  AddElsewhere(bench, "model", "Times whole models, forward and in training", argv);
}

}  // namespace cosformer::cli
