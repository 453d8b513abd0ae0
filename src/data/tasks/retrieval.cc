// Retrieval of the Long-Range Arena: whether one paper cites another, from their texts. Rows hold
// either both texts, as in the Arena's files, or the names of two papers of papers.tsv.
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cosformer/error.h"
#include "data/splits.h"
#include "data/table.h"
#include "data/tasks/bytes_literal.h"
#include "data/tasks/tasks.h"
#include "data/utf8.h"
#include "formats/utf8.h"

namespace cosformer::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextColumns = 5;  // label, name, name, text, text
constexpr size_t kNameColumns = 3;  // label, name, name

size_t ColumnsOf(const std::string& file) {
  const size_t columns = FirstRow(file).size();
  if (columns == kTextColumns || columns == kNameColumns) return columns;
  throw Error(fmt::format(
      "\"{}\" has {} columns, expected {} (label, name, name, text, text) or {} (label, name, "
      "name, with the texts in papers.tsv beside it)",
      file, columns, kTextColumns, kNameColumns));
}

std::string PapersBeside(const std::string& file) {
  return (fs::path(file).parent_path() / "papers.tsv").string();
}

std::vector<std::string> RetrievalInData(const std::string& directory, Split split) {
  for (const char* prefix : {"new_aan_pairs.", "pairs."}) {
    if (auto file = FindSplitFile(directory, split, prefix, ".tsv")) return {std::move(*file)};
  }
  return {};
}

using Papers = std::unordered_map<std::string, std::string>;

Papers ReadPapers(const std::string& file, bool any_bytes) {
  Papers papers;
  Table table(file, Table::Header::kNo, any_bytes);
  while (table.Next()) {
    if (table.columns() != 2) {
      throw Error(fmt::format("\"{}\", line {}: {} columns, expected 2: name and text", file,
                              table.line(), table.columns()));
    }
    const auto [at, is_new] = papers.emplace(table.cell(0), table.cell(1));
    if (!is_new) {
      throw Error(fmt::format("\"{}\", line {}: paper \"{}\" is there already", file, table.line(),
                              at->first));
    }
  }
  return papers;
}

// The Arena writes labels as 0.0 and 1.0.
std::string ReadLabel(std::string_view cell, const std::string& file, int64_t line) {
  const std::string_view label = cell.ends_with(".0") ? cell.substr(0, cell.size() - 2) : cell;
  if (label == "0" || label == "1") return std::string(label);
  throw Error(
      fmt::format("\"{}\", line {}: the label is \"{}\", expected 0 or 1", file, line, cell));
}

class Retrieval final : public Task {
 public:
  const TaskDescription& description() const override { return description_; }
  bool Pairs(const Source&) const override { return true; }

  std::vector<std::string> Files(const Source& source, Split split) const override {
    std::vector<std::string> files = SplitFiles(description_, source, split, {RetrievalInData, {}});
    if (!files.empty() && ColumnsOf(files.front()) == kNameColumns) {
      files.push_back(PapersBeside(files.front()));
    }
    return files;
  }

  void Read(const Source& source, Split split, const Take& take) const override {
    const std::vector<std::string> files = Files(source, split);
    if (files.empty()) return;
    std::optional<Papers> papers;
    if (files.size() == 2) papers = ReadPapers(files[1], source.any_bytes);

    Table table(files[0], Table::Header::kNo, source.any_bytes);
    while (table.Next()) {
      const auto text = [&](size_t which) {
        return papers ? Find(*papers, table, 1 + which)
                      : Decode(table, 3 + which, source.any_bytes);
      };
      take({.first = text(0),
            .second = text(1),
            .label = ReadLabel(table.cell(0), files[0], table.line()),
            .file = files[0],
            .line = table.line()});
    }
  }

 private:
  static std::string Find(const Papers& papers, const Table& table, size_t column) {
    const auto found = papers.find(std::string(table.cell(column)));
    if (found == papers.end()) {
      throw Error(fmt::format("\"{}\", line {}: paper \"{}\" is not in \"{}\"", table.path(),
                              table.line(), table.cell(column), PapersBeside(table.path())));
    }
    return NotEmpty(found->second, table, column);
  }

  static std::string Decode(const Table& table, size_t column, bool any_bytes) {
    std::string text = DecodeBytesLiteral(table.cell(column));
    if (!any_bytes && FindInvalidUtf8(text) != text.size()) {
      throw Error(fmt::format(
          "\"{}\", line {}: the text in column {} stands for bytes that are not UTF-8; train "
          "a model with --tokenizer bytes",
          table.path(), table.line(), column + 1));
    }
    return NotEmpty(std::move(text), table, column);
  }

  static std::string NotEmpty(std::string text, const Table& table, size_t column) {
    if (!text.empty()) return text;
    throw Error(fmt::format("\"{}\", line {}: the text of column {} is empty", table.path(),
                            table.line(), column + 1));
  }

  TaskDescription description_{
      .name = "retrieval",
      .summary = "whether one paper cites another, byte by byte (Long-Range Arena)",
      .layouts =
          "a directory with new_aan_pairs.train.tsv, new_aan_pairs.eval.tsv and "
          "new_aan_pairs.test.tsv (label, name, name, text, text), or with pairs.train.tsv, "
          "pairs.valid.tsv and pairs.test.tsv (label, name, name) and papers.tsv (name, text); or "
          "one such table of pairs",
      .objective = Objective::kRetrieve,
      .tokenizer = "bytes",
      .length = 4000};
};

}  // namespace

std::unique_ptr<Task> MakeRetrieval() { return std::make_unique<Retrieval>(); }

}  // namespace cosformer::data
