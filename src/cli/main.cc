// The command `cosformer`: the parts that need no libtorch, and the way to those that do.
#include "base/process.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  if (cosformer::BoundWaiting()) cosformer::Restart(argv);
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
  cosformer inspect runs/lm-cosformer
  cosformer score runs/lm-cosformer "A text that it may find likely"
  cosformer quantize runs/lm-cosformer lm-int8 --weights int8 --text held-out.txt
  cosformer reproduce efficiency --systems softmax,cosformer --budget 10m
  cosformer bench attention --lengths 512,4096 --plot attention.svg)");
  cosformer::cli::AddTrainingElsewhere(app, argv);
  cosformer::cli::AddData(app);
  int code = 0;
  cosformer::cli::AddGenerate(app, code);
  cosformer::cli::AddAttentionMap(app);
  cosformer::cli::AddInspect(app);
  cosformer::cli::AddPlot(app);
  cosformer::cli::AddQuantize(app);
  cosformer::cli::AddReproduce(app, code);
  cosformer::cli::AddScore(app);
  CLI::App* bench = cosformer::cli::AddBench(app);
  cosformer::cli::AddAttentionBench(*bench);
  cosformer::cli::AddGenerateBench(*bench);
  cosformer::cli::AddModelBenchElsewhere(*bench, argv);
  const int failed = cosformer::cli::RunProgram(app, argc, argv);
  return failed != 0 ? failed : code;
}
