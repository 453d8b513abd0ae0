// Results for a person on standard output, and for a program where --json says. Options that many
// subcommands have.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <system_error>
#include <type_traits>

namespace cosformer::cli {

// CLI11 alone takes -1 for unsigned numbers, and 10^30 for all.
template <class T>
CLI::Validator WholeNumber() {
  return CLI::Validator(
      [](const std::string& text) {
        T number = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, number);
        if (error == std::errc() && stop == end) return std::string();
        const bool beyond = error == std::errc::result_out_of_range;
        const char* what = std::is_signed_v<T>
                               ? (beyond ? " of up to 18 digits" : "")
                               : (beyond ? " from 0 to 18446744073709551615" : " from 0 up");
        return fmt::format("\"{}\" is no whole number{}", text, what);
      },
      "");
}

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
