#include "formats/model_directory.h"

#include <fmt/format.h>

#include "cosformer/error.h"

namespace cosformer {

namespace fs = std::filesystem;

fs::path ModelDirectory(const std::string& given) {
  const fs::path directory(given);
  if (!fs::exists(directory)) {
    throw Error(fmt::format("\"{}\" does not exist; give a model's directory, or a run's", given));
  }
  if (fs::exists(directory / kConfigFile)) return directory;
  const fs::path within = directory / "model";
  if (!fs::exists(within / kConfigFile)) {
    throw Error(
        fmt::format("\"{}\" has no {}; give a model's directory, or a run's", given, kConfigFile));
  }
  if (!fs::exists(within / kWeightsFile)) {
    throw Error(
        fmt::format("\"{}\" has no model yet: its training was stopped before the first "
                    "evaluation; go on with cosformer train --resume {}",
                    given, given));
  }
  return within;
}

}  // namespace cosformer
