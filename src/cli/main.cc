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
  app.footer(R"(
Examples
  cosformer train --data my.txt --minutes 30
  cosformer eval runs/lm-cosformer
  cosformer generate runs/lm-cosformer --prompt "Attention is"
  cosformer plot runs/*
  cosformer bench attention --lengths 512,4096 --plot attention.svg)");
  cosformer::cli::AddTrainingElsewhere(app, argv);
  cosformer::cli::AddData(app);
  cosformer::cli::AddGenerate(app);
  cosformer::cli::AddAttentionMap(app);
  cosformer::cli::AddPlot(app);
  CLI::App* bench = cosformer::cli::AddBench(app);
  cosformer::cli::AddAttentionBench(*bench);
  cosformer::cli::AddGenerateBench(*bench);
  cosformer::cli::AddModelBenchElsewhere(*bench, argv);
  return cosformer::cli::RunProgram(app, argc, argv);
}
