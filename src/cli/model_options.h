// The options that say what a model is, and the config that they make together with a task.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "data/prepare.h"
#include "formats/config.h"

namespace cosformer::cli {

struct ModelArguments {
  std::string config;  // a config.json to begin with
  std::string from;    // a pre-trained model's directory
  std::string attention = "cosformer";
  std::string cross_attention = "cosformer";
  std::string positions;  // empty: what suits task and attention
  std::string norm = "layer", norm_position = "pre", activation = "gelu", pool = "mean";
  std::string input = "tokens";
  std::string loss = "cross-entropy";
  int64_t layers = 4, decoder_layers = 0, width = 256, heads = 4, kv_heads = 0, head_dim = 0;
  int64_t hidden = 0, patch = 4, negatives = 0;
  double dropout = 0.1;
  bool bias = true, tied = true, checkpointing = false;
};

class ModelOptions {
 public:
  ModelOptions(CLI::App& app, ModelArguments& arguments);

  // Throws Error for values that no model has, also those that this task's model has no use for.
  void Check() const;

  // What the task asks for, the options that were given, the pre-trained model or the file that
  // they begin with, and defaults for the rest. `length` is that of the sequences.
  ModelConfig Config(const data::Task& task, const data::TaskData& data, int64_t length) const;

  // Of a model that begins with another: a recipe's shape gives way to that of the other, unless
  // the command line has it too (`typed` are its options). Names those that give way.
  std::vector<std::string> InheritShape(const std::vector<std::string>& typed) const;

  // Takes the defaults of options that were not given out of the recipe, when the model begins with
  // another or a file: read again, they would stand above what is inherited.
  void LeaveInheritedOut() const;

 private:
  // An option, and the key in config.json that it stands for.
  struct Key {
    std::string name;
    CLI::Option* option;
    std::function<nlohmann::json()> value;
  };
  template <class T>
  void Add(const char* option, const char* key, T& value, const char* help);

  CLI::App& app_;
  ModelArguments& arguments_;
  std::vector<Key> keys_;
  CLI::Option* patch_;
};

}  // namespace cosformer::cli
