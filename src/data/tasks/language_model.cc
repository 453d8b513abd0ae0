// lm and mlm: plain text, from which the next token or hidden ones are learned.
#include <optional>
#include <utility>

#include "data/splits.h"
#include "data/tasks/tasks.h"
#include "data/text_files.h"

namespace cosformer::data {
namespace {

// The file of a split by its name: wiki.train.tokens, train.txt, ...
std::optional<std::string> NamedFile(const std::string& directory, Split split) {
  constexpr std::pair<const char*, const char*> kForms[] = {
      {"wiki.", ".tokens"}, {"wiki.", ".raw"}, {"", ".txt"},
      {"", ".text"},        {"", ".tokens"},   {"", ".raw"},
  };
  for (const auto& [prefix, suffix] : kForms) {
    if (auto file = FindSplitFile(directory, split, prefix, suffix)) return file;
  }
  return std::nullopt;
}

std::vector<std::string> TextInData(const std::string& directory, Split split) {
  if (auto file = NamedFile(directory, split)) return {std::move(*file)};
  for (const Split other : kSplits) {
    if (NamedFile(directory, other)) return {};
  }
  if (split != Split::kTrain) return {};
  return FilesUnder(directory, ".txt");
}

class PlainText final : public Task {
 public:
  explicit PlainText(TaskDescription description) : description_(std::move(description)) {}

  const TaskDescription& description() const override { return description_; }

  std::vector<std::string> Files(const Source& source, Split split) const override {
    return SplitFiles(description_, source, split, {TextInData, [](const std::string& directory) {
                                                      return FilesUnder(directory, ".txt");
                                                    }});
  }

  void Read(const Source& source, Split split, const Take& take) const override {
    ReadStretches(Files(source, split), source.any_bytes, take);
  }

 private:
  TaskDescription description_;
};

TaskDescription Describe(std::string name, std::string summary, Objective objective) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .layouts =
              "a text file; a directory with train.txt, valid.txt and test.txt, or with WikiText's "
              "wiki.train.tokens and so on; or a directory of *.txt, all of them for training",
          .objective = objective,
          .stream = true};
}

}  // namespace

std::unique_ptr<Task> MakeLanguageModel() {
  return std::make_unique<PlainText>(
      Describe("lm", "the next token of a text", Objective::kCausal));
}

std::unique_ptr<Task> MakeMaskedLanguageModel() {
  return std::make_unique<PlainText>(
      Describe("mlm", "hidden tokens of a text", Objective::kMasked));
}

}  // namespace cosformer::data
