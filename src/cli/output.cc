#include "cli/output.h"

#include <fmt/format.h>
#include <omp.h>

#include <cstdio>

#include "cosformer/error.h"
#include "report/files.h"

namespace cosformer::cli {
namespace {

void Print(std::FILE* file, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0) {
    throw Error("cannot write the results: the output was closed or its disk is full");
  }
}

}  // namespace

void AddJsonOption(CLI::App& app, std::string& json) {
  app.add_option("--json", json,
                 "Also write the results to this file; - for standard output, the table then going "
                 "to standard error");
}

void AddThreadsOption(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "Threads; 0: all cores");
}

void CheckThreads(int threads) {
  constexpr int kMost = 1024;  // beyond what any machine has, OpenMP ends the program
  if (threads < 0 || threads > kMost) {
    throw Error(
        fmt::format("--threads is {}; it takes 1 to {}, or 0 for all cores", threads, kMost));
  }
}

void UseThreads(int threads) {
  CheckThreads(threads);
  if (threads > 0) omp_set_num_threads(threads);
}

void CheckJsonOutput(const std::string& json) {
  if (!json.empty() && json != "-") report::CheckWritable(json);
}

void PrintResults(const std::string& table, const std::string& json_text, const std::string& json) {
  const bool to_stdout = json == "-";
  Print(to_stdout ? stderr : stdout, table);
  if (to_stdout) {
    Print(stdout, json_text);
  } else if (!json.empty()) {
    report::WriteFile(json, json_text);
  }
}

}  // namespace cosformer::cli
