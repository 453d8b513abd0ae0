// The way from `cosformer` to the program that has libtorch.
#pragma once

#include <CLI/CLI.hpp>

namespace cosformer::cli {

// A subcommand that hands the command line, as it stands, to cosformer-train beside this program.
void AddElsewhere(CLI::App& parent, const char* name, const char* summary, char** argv);

}  // namespace cosformer::cli
