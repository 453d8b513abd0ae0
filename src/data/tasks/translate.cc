// translate: a text from another, line by line. Source and target stand in one table, or in two
// files with a line for a line: train.src and train.tgt, or train.X and train.Y, where the source
// is the one that comes first in the alphabet.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cosformer/error.h"
#include "data/input_file.h"
#include "data/splits.h"
#include "data/table.h"
#include "data/tasks/tasks.h"
#include "data/utf8.h"
#include "report/units.h"

namespace cosformer::data {
namespace {

namespace fs = std::filesystem;

// The files NAME.* for the names of a split, sorted.
std::vector<std::string> FilesNamed(const std::string& directory, Split split) {
  const auto names = NamesOf(split);
  std::vector<std::string> files;
  try {
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (std::ranges::find(names, entry.path().stem().string()) == names.end()) continue;
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(
        fmt::format("cannot read the directory \"{}\": {}", directory, error.code().message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> TranslationInData(const std::string& directory, Split split) {
  if (auto file = FindSplitFile(directory, split, "", ".tsv")) return {std::move(*file)};
  const auto source = FindSplitFile(directory, split, "", ".src");
  const auto target = FindSplitFile(directory, split, "", ".tgt");
  if (source && target) return {*source, *target};
  std::vector<std::string> files = FilesNamed(directory, split);
  if (files.empty() || files.size() == 2) return files;
  throw Error(fmt::format(
      "which of these are the source and the target of the {} split: {}? Expected two files of one "
      "name with an ending for each language, or {}.src and {}.tgt, or {}.tsv",
      Name(split), fmt::join(files, ", "), Name(split), Name(split), Name(split)));
}

void CheckNotEmpty(const RawExample& example) {
  if (!example.first.empty() && !example.second.empty()) return;
  throw Error(fmt::format("\"{}\", line {}: the {} is empty; remove the pair", example.file,
                          example.line, example.first.empty() ? "source" : "target"));
}

void ReadTable(const std::string& file, bool any_bytes, const Take& take) {
  Table table(file, Table::Header::kNo, any_bytes);
  while (table.Next()) {
    if (table.columns() != 2) {
      throw Error(fmt::format("\"{}\", line {}: {} columns, expected 2: source and target", file,
                              table.line(), table.columns()));
    }
    RawExample example{.first = std::string(table.cell(0)),
                       .second = std::string(table.cell(1)),
                       .file = file,
                       .line = table.line()};
    CheckNotEmpty(example);
    take(std::move(example));
  }
}

// The error for an unequal number of lines comes when the shorter file ends: to count before would
// be to read both files twice.
void ReadTwoFiles(const std::string& source, const std::string& target, bool any_bytes,
                  const Take& take) {
  LineReader source_lines(source), target_lines(target);
  std::string_view first, second;
  int64_t count = 0;
  for (;; ++count) {
    const bool has_first = source_lines.Next(first), has_second = target_lines.Next(second);
    if (!has_first && !has_second) break;
    if (has_first != has_second) {
      int64_t counts[] = {count + has_first, count + has_second};
      while (source_lines.Next(first)) ++counts[0];
      while (target_lines.Next(second)) ++counts[1];
      throw Error(fmt::format(
          "\"{}\" has {} lines and \"{}\" has {}; line by line, one must be the other's "
          "translation",
          source, report::FormatInteger(counts[0]), target, report::FormatInteger(counts[1])));
    }
    if (!any_bytes) {
      CheckUtf8(first, source, source_lines.position());
      CheckUtf8(second, target, target_lines.position());
    }
    RawExample example{.first = std::string(first),
                       .second = std::string(second),
                       .file = source,
                       .line = source_lines.position().line};
    CheckNotEmpty(example);
    take(std::move(example));
  }
  if (count == 0) throw Error(fmt::format("\"{}\" and \"{}\" are empty", source, target));
}

class Translation final : public Task {
 public:
  const TaskDescription& description() const override { return description_; }
  bool Pairs(const Source&) const override { return true; }

  std::vector<std::string> Files(const Source& source, Split split) const override {
    return SplitFiles(description_, source, split, {TranslationInData, {}});
  }

  void Read(const Source& source, Split split, const Take& take) const override {
    const std::vector<std::string> files = Files(source, split);
    if (files.size() == 2) {
      ReadTwoFiles(files[0], files[1], source.any_bytes, take);
    } else if (files.size() == 1) {
      ReadTable(files[0], source.any_bytes, take);
    }
  }

 private:
  TaskDescription description_{
      .name = "translate",
      .summary = "a text from another, line by line",
      .layouts =
          "a directory with train.tsv, valid.tsv and test.tsv of two columns, source and "
          "target, or with two files a split, train.src and train.tgt (or an ending for "
          "each language, the source first in the alphabet); or one such table",
      .objective = Objective::kTranslate,
      .length = 256};
};

}  // namespace

std::unique_ptr<Task> MakeTranslate() { return std::make_unique<Translation>(); }

}  // namespace cosformer::data
