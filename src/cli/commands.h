// The subcommands of `cosformer` that stand alone; those of bench are in bench.h.
#pragma once

#include <CLI/CLI.hpp>

namespace cosformer::cli {

void AddPlot(CLI::App& app);

}  // namespace cosformer::cli
