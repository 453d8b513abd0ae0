// `cosformer bench` itself, and its way to the program that has libtorch.
#include "cli/bench.h"

#include "cli/elsewhere.h"

namespace cosformer::cli {

CLI::App* AddBench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Times parts of cosFormer on this machine");
  bench->footer(R"(
Examples
  cosformer bench attention --lengths 512,4096 --plot attention.svg
  cosformer bench generate --weights float32,int8
  cosformer bench model --attention softmax,cosformer --lengths 1024,4096)");
  bench->require_subcommand(1);
  return bench;
}

void AddModelBenchElsewhere(CLI::App& bench, char** argv) {
  AddElsewhere(bench, "model", "Times whole models, forward and in training", argv);
}

}  // namespace cosformer::cli
