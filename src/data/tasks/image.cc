// Image of the Long-Range Arena: CIFAR-10 in grey, pixel by pixel. Colours become
// 0.299 red + 0.587 green + 0.114 blue, rounded.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "cosformer/error.h"
#include "data/input_file.h"
#include "data/records.h"
#include "data/splits.h"
#include "data/tasks/tasks.h"
#include "report/units.h"

namespace cosformer::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kImageSide = 32;
constexpr size_t kPixels = kImageSide * kImageSide;
constexpr size_t kGreyRecord = 1 + kPixels;
constexpr size_t kColourRecord = 1 + 3 * kPixels;
constexpr int kClasses = 10;
constexpr int kBatches = 5;

std::vector<std::string> Batches(const std::string& directory, Split split) {
  const auto path = [&](const std::string& name) { return (fs::path(directory) / name).string(); };
  std::error_code error;
  if (split == Split::kTest) {
    std::string file = path("test_batch.bin");
    if (fs::exists(file, error)) return {std::move(file)};
  }
  if (split != Split::kTrain) return {};
  std::vector<std::string> files;
  std::string missing;
  for (int i = 1; i <= kBatches; ++i) {
    std::string file = path(fmt::format("data_batch_{}.bin", i));
    if (fs::exists(file, error)) {
      files.push_back(std::move(file));
    } else {
      missing = std::move(file);
    }
  }
  if (!files.empty() && !missing.empty()) {
    throw Error(fmt::format("\"{}\" is missing; CIFAR-10 has data_batch_1.bin to data_batch_{}.bin",
                            missing, kBatches));
  }
  return files;
}

std::vector<std::string> ImageInData(const std::string& directory, Split split) {
  if (auto file = FindSplitFile(directory, split, "", ".bin")) return {std::move(*file)};
  return Batches(directory, split);
}

// Both fit a size that is a multiple of both; then the name decides.
size_t RecordBytes(const std::string& file) {
  const int64_t size = FileSize(file);
  const bool grey = size % static_cast<int64_t>(kGreyRecord) == 0;
  const bool colour = size % static_cast<int64_t>(kColourRecord) == 0;
  if (grey && colour) {
    return file.find("_batch") == std::string::npos ? kGreyRecord : kColourRecord;
  }
  if (grey) return kGreyRecord;
  if (colour) return kColourRecord;
  throw Error(fmt::format(
      "\"{}\" has {} bytes, which is neither a multiple of {} (a label and {} grey pixels) nor of "
      "{} (a label and as many red, green and blue ones); is it whole?",
      file, report::FormatInteger(size), kGreyRecord, kPixels, kColourRecord));
}

std::string Grey(std::span<const uint8_t> pixels) {
  if (pixels.size() == kPixels) return {pixels.begin(), pixels.end()};
  std::string grey(kPixels, '\0');
  for (size_t i = 0; i < kPixels; ++i) {
    const int luma =
        299 * pixels[i] + 587 * pixels[i + kPixels] + 114 * pixels[i + 2 * kPixels] + 500;
    grey[i] = static_cast<char>(luma / 1000);
  }
  return grey;
}

class GreyImage final : public Task {
 public:
  const TaskDescription& description() const override { return description_; }

  std::vector<std::string> Files(const Source& source, Split split) const override {
    return SplitFiles(description_, source, split, {ImageInData, {}});
  }

  void Read(const Source& source, Split split, const Take& take) const override {
    for (const std::string& file : Files(source, split)) {
      const auto each = [&](std::span<const uint8_t> record, int64_t number) {
        take({.first = Grey(record.subspan(1)),
              .label = LabelOf(record, kClasses, file, number),
              .file = file,
              .line = number});
      };
      ReadRecords(file, RecordBytes(file), each);
    }
  }

  std::unique_ptr<Tokenizer> FixedTokenizer() const override {
    return std::make_unique<Tokenizer>(Tokenizer::Bytes());
  }

 private:
  TaskDescription description_{
      .name = "image",
      .summary = "the class of an image in grey, pixel by pixel (Long-Range Arena)",
      .layouts =
          "a directory with CIFAR-10's data_batch_1.bin to data_batch_5.bin and "
          "test_batch.bin, or with train.bin and test.bin of a label byte and 1024 grey "
          "pixels a record; or one such file",
      .objective = Objective::kClassify,
      .tokenizer = "bytes",
      .vocabulary = 0,
      .length = kImageSide * kImageSide,
      .image = {kImageSide, kImageSide}};
};

}  // namespace

std::unique_ptr<Task> MakeImage() { return std::make_unique<GreyImage>(); }

}  // namespace cosformer::data
