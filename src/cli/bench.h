// `cosformer bench ...`
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>

#include "cosformer/error.h"

namespace cosformer::cli {

// The subcommand that the others belong to.
CLI::App* AddBench(CLI::App& app);

void AddAttentionBench(CLI::App& bench);
void AddGenerateBench(CLI::App& bench);
void AddModelBench(CLI::App& bench);  // in cosformer-train
// Hands the command line, as it stands, to cosformer-train.
void AddModelBenchElsewhere(CLI::App& bench, char** argv);

// That of the values which an option calls by its name. Throws Error that lists all.
template <class T>
T ValueNamed(const char* option, const std::string& name, std::initializer_list<T> values,
             const auto& name_of) {
  std::string known;
  for (const T value : values) {
    if (name == name_of(value)) return value;
    known += (known.empty() ? "" : ", ") + std::string(name_of(value));
  }
  throw Error(fmt::format("{} does not know \"{}\": it takes {}", option, name, known));
}

}  // namespace cosformer::cli
