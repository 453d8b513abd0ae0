#include "runtime/model_directory.h"

#include <fmt/format.h>

#include "cosformer/error.h"

namespace cosformer::runtime {

namespace fs = std::filesystem;

fs::path ModelDirectory(const std::string& given) {
  const fs::path directory(given);
  if (!fs::exists(directory)) {
    throw Error(fmt::format("\"{}\" does not exist; give a model's directory, or a run's", given));
  }
  if (!fs::exists(directory / kConfigFile) && fs::exists(directory / "model" / kConfigFile)) {
    return directory / "model";
  }
  if (!fs::exists(directory / kConfigFile)) {
    throw Error(
        fmt::format("\"{}\" has no {}; give a model's directory, or a run's", given, kConfigFile));
  }
  return directory;
}

}  // namespace cosformer::runtime
