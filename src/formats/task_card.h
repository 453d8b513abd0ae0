// task.json: what a model was trained for, beside its config: the task's name, and the names of its
// classes in their order.
#pragma once

#include <string>
#include <vector>

namespace cosformer {

struct TaskCard {
  std::string task;
  std::vector<std::string> labels;  // empty where there are no classes
  bool pairs = false;               // the model reads two texts
  std::string tokenizer = {};  // the fingerprint of the one it was trained with; empty: unknown

  // Whether what it was trained on were images, whose pixels may well be tokens.
  bool images() const { return task == "image" || task == "pathfinder"; }

  bool operator==(const TaskCard&) const = default;
};

// In a model directory; whole or not at all.
void WriteTaskCard(const std::string& directory, const TaskCard& card);
// Throws Error for what is missing or broken.
TaskCard ReadTaskCard(const std::string& directory);
// Throws Error where the tokenizer in a model directory, of this fingerprint, is not the card's.
void CheckTrainedWith(const TaskCard& card, const std::string& tokenizer,
                      const std::string& directory);

}  // namespace cosformer
