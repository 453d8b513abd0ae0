// Commands that run a model: small ones of random numbers, written as `cosformer train` writes
// them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "formats/task_card.h"
#include "formats/tokenizer.h"
#include "runtime/parameters.h"

namespace cosformer::testing {

class ModelCommandTest : public CommandTest {
 protected:
  // In the test's folder; of bytes, so that any text is one.
  void WriteModel(const std::string& name, const nlohmann::json& changes = {},
                  const std::vector<std::string>& labels = {}) const {
    const Tokenizer tokenizer = Tokenizer::Bytes();
    nlohmann::json json = {{"vocabulary", tokenizer.size()},
                           {"width", 16},
                           {"layers", 2},
                           {"heads", 2},
                           {"max_length", 64},
                           {"positions", "none"}};
    if (!changes.empty()) json.update(changes);
    const ModelConfig config = ParseConfig(json, "test");
    const std::filesystem::path directory = folder_ / name;
    std::filesystem::create_directories(directory);
    WriteConfig((directory / "config.json").string(), config);
    runtime::WriteParameters(config, runtime::RandomParameters(config, WeightType::kFloat32, 1),
                             (directory / "model.safetensors").string());
    tokenizer.Save(directory.string());
    TaskCard card;
    card.task = config.classes > 0 ? "classify" : "lm";
    card.labels = labels;
    WriteTaskCard(directory.string(), card);
  }
};

}  // namespace cosformer::testing
