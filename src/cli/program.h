// What the executables share: a command line in, one sentence out when something fails.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cosformer::cli {

// Parses the command line, without the program's name, into `app` and runs what it asks for.
// Whatever goes wrong ends here as one sentence on stderr and a non-zero exit: 1 for what failed, 2
// for a command line that could not be understood, 3 (report::kOutOfMemoryExit) for want of memory.
int RunProgram(CLI::App& app, std::vector<std::string> words);
int RunProgram(CLI::App& app, int argc, char** argv);

}  // namespace cosformer::cli
