// Small models of random numbers, as directories in a test's folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "cosformer/runtime.h"
#include "formats/config.h"
#include "formats/task_card.h"
#include "formats/tokenizer.h"
#include "runtime/parameters.h"

namespace cosformer::testing {

class ModelCommandTest : public CommandTest {
 protected:
  // A decoder that reads bytes, 96 of them at most, but for `changes`; with a task.json where there
  // are classes.
  std::filesystem::path WriteModel(const std::string& name, const nlohmann::json& changes = {},
                                   const TaskCard& card = {}) const {
    nlohmann::json json = {
        {"vocabulary", 260}, {"width", 24},      {"layers", 2},         {"heads", 4},
        {"hidden", 40},      {"max_length", 96}, {"positions", "none"}, {"attention", "cosformer"}};
    if (!changes.empty()) json.update(changes);
    const ModelConfig config = ParseConfig(json, "test");
    const std::filesystem::path directory = folder_ / name;
    std::filesystem::create_directories(directory);
    WriteConfig((directory / "config.json").string(), config);
    runtime::WriteParameters(config, runtime::RandomParameters(config, WeightType::kFloat32, 1),
                             (directory / "model.safetensors").string());
    Tokenizer::Bytes().Save(directory.string());
    if (!card.task.empty()) WriteTaskCard(directory.string(), card);
    return directory;
  }

  std::filesystem::path WriteClassifier(const std::string& name) const {
    return WriteModel(name, {{"model", "encoder"}, {"classes", 3}},
                      {.task = "classify", .labels = {"bad", "fair", "good"}, .pairs = false});
  }

  void WriteText(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  // The JSON of a command that succeeds.
  nlohmann::json JsonOf(const std::string& arguments) const {
    const Outcome outcome = Run(arguments + " --json -");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }
};

// Letters and blanks, the same every time.
inline std::string SomeText(size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) {
    text += i % 6 == 5 ? ' ' : static_cast<char>('a' + i * i * 7 % 26);
  }
  return text;
}

}  // namespace cosformer::testing
