// The options that say what data there are and how they become tokens: the same for train, eval and
// data.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "data/prepare.h"
#include "data/task.h"
#include "report/progress.h"

namespace cosformer::cli {

struct DataArguments {
  std::string task = "lm";
  data::Source source;
  data::PrepareOptions prepare;
  double cache_limit = 20;  // GiB; 0: none
};

void AddDataOptions(CLI::App& app, DataArguments& arguments);

// The tasks and what each reads, for the help.
std::string TaskList();

// Says on stderr what is being done. Keeps the cache within its limit.
data::TaskData PrepareData(const DataArguments& arguments);

}  // namespace cosformer::cli
