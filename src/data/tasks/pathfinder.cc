// Pathfinder of the Long-Range Arena: whether a dashed path joins the two dots of an image.
#include <utility>

#include "data/records.h"
#include "data/splits.h"
#include "data/tasks/tasks.h"

namespace cosformer::data {
namespace {

constexpr int64_t kPathfinderSide = 32;
constexpr size_t kPathfinderRecord = 1 + kPathfinderSide * kPathfinderSide;

std::vector<std::string> PathfinderInData(const std::string& directory, Split split) {
  if (auto file = FindSplitFile(directory, split, "", ".bin")) return {std::move(*file)};
  return {};
}

class Pathfinder final : public Task {
 public:
  const TaskDescription& description() const override { return description_; }

  std::vector<std::string> Files(const Source& source, Split split) const override {
    return SplitFiles(description_, source, split, {PathfinderInData, {}});
  }

  void Read(const Source& source, Split split, const Take& take) const override {
    for (const std::string& file : Files(source, split)) {
      ReadRecords(file, kPathfinderRecord, [&](std::span<const uint8_t> record, int64_t number) {
        take({.first = {record.begin() + 1, record.end()},
              .label = LabelOf(record, 2, file, number),
              .file = file,
              .line = number});
      });
    }
  }

  std::unique_ptr<Tokenizer> FixedTokenizer() const override {
    return std::make_unique<Tokenizer>(Tokenizer::Bytes());
  }

 private:
  TaskDescription description_{
      .name = "pathfinder",
      .summary = "whether a path joins two dots, pixel by pixel (Long-Range Arena)",
      .layouts =
          "a directory with train.bin, valid.bin and test.bin, or one such file: records of "
          "a label byte and 1024 grey pixels, 32 rows of 32",
      .objective = Objective::kClassify,
      .tokenizer = "bytes",
      .vocabulary = 0,
      .length = kPathfinderSide * kPathfinderSide,
      .image = {kPathfinderSide, kPathfinderSide}};
};

}  // namespace

std::unique_ptr<Task> MakePathfinder() { return std::make_unique<Pathfinder>(); }

}  // namespace cosformer::data
