// The subcommands, each in its file; those of bench are in bench.h.
#pragma once

#include <CLI/CLI.hpp>

namespace cosformer::cli {

// Of `cosformer`.
void AddAttentionMap(CLI::App& app);
void AddData(CLI::App& app);
void AddDataClean(CLI::App& data);
void AddGenerate(CLI::App& app, int& code);
void AddInspect(CLI::App& app);
void AddPlot(CLI::App& app);
void AddQuantize(CLI::App& app);
// `code` is what the program is to end with, unless something fails: 128 and the signal that
// stopped it.
void AddReproduce(CLI::App& app, int& code);
void AddScore(CLI::App& app);
// Hands the command line of train and eval, as it stands, to cosformer-train.
void AddTrainingElsewhere(CLI::App& app, char** argv);

// Of `cosformer-train`: programs of their own, with options that a recipe can hold. They take the
// command line from their own name on.
int RunTrain(int argc, char** argv);
int RunEval(int argc, char** argv);

}  // namespace cosformer::cli
