// Results for a person on standard output, and for a program where --json says. Options that many
// subcommands have.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cosformer::cli {

void AddJsonOption(CLI::App& app, std::string& json);

void AddThreadsOption(CLI::App& app, int& threads);
// Throws Error for numbers that make no sense.
void CheckThreads(int threads);
// All that runs in parallel from now on takes so many, once checked; 0: as many as there are cores.
void UseThreads(int threads);

// Minutes of measuring must not end with the news that there was no place for the results.
void CheckJsonOutput(const std::string& json);

// The table to standard output and the JSON to the file; where that is "-", the JSON goes to
// standard output and the table to standard error.
void PrintResults(const std::string& table, const std::string& json_text, const std::string& json);

}  // namespace cosformer::cli
