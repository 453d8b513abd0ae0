// `cosformer bench ...`
#pragma once

#include <CLI/CLI.hpp>

namespace cosformer::cli {

// The subcommand that the others belong to.
CLI::App* AddBench(CLI::App& app);

void AddAttentionBench(CLI::App& bench);
void AddGenerateBench(CLI::App& bench);
void AddModelBench(CLI::App& bench);  // in cosformer-train
// Hands the command line, as it stands, to cosformer-train.
void AddModelBenchElsewhere(CLI::App& bench, char** argv);

}  // namespace cosformer::cli
