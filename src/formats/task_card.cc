#include "formats/task_card.h"

#include <fmt/format.h>

#include <filesystem>

#include "cosformer/error.h"
#include "formats/json.h"
#include "formats/model_directory.h"
#include "formats/option_reader.h"
#include "report/files.h"

namespace cosformer {
namespace {

using nlohmann::json;

constexpr int64_t kTaskCardFormat = 1;

std::string PathIn(const std::string& directory) {
  return (std::filesystem::path(directory) / kTaskFile).string();
}

}  // namespace

void WriteTaskCard(const std::string& directory, const TaskCard& card) {
  json object{{"format", kTaskCardFormat}, {"task", card.task}};
  if (!card.labels.empty()) object["labels"] = card.labels;
  if (card.pairs) object["pairs"] = true;
  if (!card.tokenizer.empty()) object["tokenizer"] = card.tokenizer;
  report::WriteFile(PathIn(directory), JsonText(object, 2) + "\n");
}

TaskCard ReadTaskCard(const std::string& directory) {
  const std::string path = PathIn(directory);
  const json object = ReadJsonFile(path);
  OptionReader reader(object, fmt::format("\"{}\"", path));
  reader.CheckFormat(kTaskCardFormat);
  TaskCard card;
  card.task = reader.Text("task", "");
  if (card.task.empty()) {
    throw Error(fmt::format(
        "\"{}\": \"task\" is missing or empty; expected the name of a task, as \"lm\"", path));
  }
  card.pairs = reader.Flag("pairs", false);
  card.tokenizer = reader.Text("tokenizer", "");
  if (const json* labels = reader.Find("labels")) {
    if (!labels->is_array()) {
      throw Error(fmt::format("\"{}\": \"labels\" is {}; expected a list of names", path,
                              DescribeJson(*labels)));
    }
    for (const json& label : *labels) {
      if (!label.is_string()) {
        throw Error(
            fmt::format("\"{}\": \"labels\" holds {}; expected names", path, DescribeJson(label)));
      }
      card.labels.push_back(label.get<std::string>());
    }
  }
  reader.Done();
  return card;
}

void CheckTrainedWith(const TaskCard& card, const std::string& tokenizer,
                      const std::string& directory) {
  if (card.tokenizer.empty() || card.tokenizer == tokenizer) return;
  throw Error(
      fmt::format("{}: its tokenizer is not the one that the model was trained with, but that of "
                  "another model; copy the whole directory of the model again",
                  directory));
}

}  // namespace cosformer
