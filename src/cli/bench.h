// `cosformer bench`.
#pragma once

#include <CLI/CLI.hpp>

namespace cosformer::cli {

// Adds the subcommand; what it does runs when it was parsed.
void AddBench(CLI::App& app);

}  // namespace cosformer::cli
