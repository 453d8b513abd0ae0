// Small models of random numbers as directories, for what loads them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/task_card.h"
#include "runtime/parameters.h"
#include "tests/runtime/support.h"

namespace cosformer::runtime::testing {

// With a tokenizer, the vocabulary is the tokenizer's.
inline std::string WriteModel(const std::string& directory, nlohmann::json changes,
                              const std::optional<Tokenizer>& tokenizer = Tokenizer::Bytes(),
                              const std::vector<std::string>& labels = {}) {
  std::filesystem::create_directories(directory);
  if (tokenizer) {
    tokenizer->Save(directory);
    changes["vocabulary"] = tokenizer->size();
  }
  const ModelConfig config = SmallConfig(changes);
  WriteConfig(directory + "/config.json", config);
  WriteParameters(config, SmallParameters(config, 1), directory + "/model.safetensors");
  if (!labels.empty()) WriteTaskCard(directory, {"test", labels, false});
  return directory;
}

}  // namespace cosformer::runtime::testing
