// classify, and the Long-Range Arena's Text: the class of a text or of a pair, from tables or from
// directories that are named like the classes.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cosformer/error.h"
#include "data/input_file.h"
#include "data/splits.h"
#include "data/table.h"
#include "data/tasks/classify_columns.h"
#include "data/tasks/tasks.h"
#include "data/text_files.h"
#include "data/utf8.h"

namespace cosformer::data {
namespace {

namespace fs = std::filesystem;

// LABEL/*.txt of a directory.
std::vector<std::string> LabelledFiles(std::string directory) {
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  std::vector<std::string> files = FilesUnder(directory, ".txt");
  std::erase_if(files, [&](const std::string& file) {
    const fs::path parent = fs::path(file).parent_path();
    // aclImdb keeps reviews without a label in train/unsup.
    return parent.filename() == "unsup" || parent.parent_path() != directory;
  });
  return files;
}

// The files of a split, and what they are.
struct Found {
  std::vector<std::string> files;
  bool table = true;  // otherwise every file is a text
};

class Classify final : public Task {
 public:
  explicit Classify(TaskDescription description) : description_(std::move(description)) {}

  const TaskDescription& description() const override { return description_; }

  std::vector<std::string> Files(const Source& source, Split split) const override {
    return Find(source, split).files;
  }

  bool Pairs(const Source& source) const override {
    for (const Split split : kSplits) {
      const Found found = Find(source, split);
      if (found.files.empty()) continue;
      return found.table && FindColumns(found.files.front(), source).pair.has_value();
    }
    return false;
  }

  void Read(const Source& source, Split split, const Take& take) const override {
    const Found found = Find(source, split);
    for (const std::string& file : found.files) {
      if (found.table) {
        ReadTable(file, source, take);
      } else {
        ReadText(file, source, take);
      }
    }
  }

 private:
  Found Find(const Source& source, Split split) const {
    Found found;
    found.files = SplitFiles(description_, source, split,
                             {[&](const std::string& directory, Split wanted) {
                                return InData(source, directory, wanted, found.table);
                              },
                              [&](const std::string& directory) {
                                found.table = false;
                                return LabelledFiles(directory);
                              }});
    return found;
  }

  static std::vector<std::string> InData(const Source& source, const std::string& directory,
                                         Split split, bool& table) {
    // MNLI has its validation split twice; the matched one is what is reported.
    for (const char* suffix : {".tsv", "_matched.tsv"}) {
      auto file = FindSplitFile(directory, split, "", suffix);
      if (!file) continue;
      table = true;
      if (split == Split::kTest && IsUnlabelled(*file, source)) return {};
      return {std::move(*file)};
    }
    for (const std::string_view name : NamesOf(split)) {
      const fs::path folder = fs::path(directory) / name;
      std::error_code error;
      if (!fs::is_directory(folder, error)) continue;
      table = false;
      return LabelledFiles(folder.string());
    }
    return {};
  }

  static void ReadTable(const std::string& file, const Source& source, const Take& take) {
    const Columns columns = FindColumns(file, source);
    Table table(file, columns.header, source.any_bytes);
    while (table.Next()) {
      RawExample example{.first = std::string(table.cell(columns.text)),
                         .second = columns.pair ? std::string(table.cell(*columns.pair)) : "",
                         .label = std::string(table.cell(columns.label)),
                         .file = file,
                         .line = table.line()};
      if (example.first.empty() && example.second.empty()) {
        throw Error(fmt::format("\"{}\", line {}: the text is empty", file, example.line));
      }
      if (example.label.empty()) {
        throw Error(fmt::format("\"{}\", line {}: the label is empty", file, example.line));
      }
      take(std::move(example));
    }
  }

  static void ReadText(const std::string& file, const Source& source, const Take& take) {
    std::string text = ReadWhole(file);
    if (!source.any_bytes) CheckUtf8(text, file, {});
    while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
    if (text.empty()) throw Error(fmt::format("\"{}\" is empty, expected a text", file));
    take({.first = std::move(text),
          .label = fs::path(file).parent_path().filename().string(),
          .file = file});
  }

  TaskDescription description_;
};

constexpr const char* kLayouts =
    "a directory with train.tsv, dev.tsv (or valid.tsv) and test.tsv, as GLUE's, or with "
    "train/LABEL/*.txt and test/LABEL/*.txt, as aclImdb; or one such table. The columns are known "
    "by usual names, by --text-column, --pair-column and --label-column, or, without a header, by "
    "number";

}  // namespace

std::unique_ptr<Task> MakeClassify() {
  return std::make_unique<Classify>(TaskDescription{.name = "classify",
                                                    .summary = "the class of a text, or of two",
                                                    .layouts = kLayouts,
                                                    .objective = Objective::kClassify,
                                                    .tables = true});
}

std::unique_ptr<Task> MakeByteText() {
  return std::make_unique<Classify>(
      TaskDescription{.name = "text",
                      .summary = "the class of a text, byte by byte (Long-Range Arena)",
                      .layouts = kLayouts,
                      .objective = Objective::kClassify,
                      .tokenizer = "bytes",
                      .length = 4096,
                      .tables = true});
}

}  // namespace cosformer::data
