// ListOps of the Long-Range Arena: the value of a nested list of operators, "[MAX 2 9 [MIN 4 7 ]
// ]".
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cosformer/error.h"
#include "data/splits.h"
#include "data/table.h"
#include "data/tasks/tasks.h"

namespace cosformer::data {
namespace {

const std::vector<std::string>& Words() {
  static const std::vector<std::string> words = {"[MIN", "[MAX", "[MED", "[SM", "]", "0", "1", "2",
                                                 "3",    "4",    "5",    "6",   "7", "8", "9"};
  return words;
}

// The tokens with one blank between them. Parentheses mark where the generator's binary tree
// branches; they say nothing that the brackets do not, and every loader of the Arena drops them.
std::string Tokens(std::string_view text, const std::string& file, int64_t line) {
  constexpr std::string_view kBetween = " ()";
  std::string tokens;
  for (size_t begin; (begin = text.find_first_not_of(kBetween)) != std::string_view::npos;) {
    text.remove_prefix(begin);
    const std::string_view token = text.substr(0, text.find_first_of(kBetween));
    text.remove_prefix(token.size());
    if (std::ranges::find(Words(), token) == Words().end()) {
      throw Error(fmt::format("\"{}\", line {}: \"{}\" is no word of ListOps; those are {}", file,
                              line, token, fmt::join(Words(), " ")));
    }
    if (!tokens.empty()) tokens += ' ';
    tokens += token;
  }
  if (tokens.empty()) {
    throw Error(fmt::format("\"{}\", line {}: the expression is empty", file, line));
  }
  return tokens;
}

std::vector<std::string> ListOpsInData(const std::string& directory, Split split) {
  for (const char* prefix : {"basic_", ""}) {
    if (auto file = FindSplitFile(directory, split, prefix, ".tsv")) return {std::move(*file)};
  }
  return {};
}

class ListOps final : public Task {
 public:
  const TaskDescription& description() const override { return description_; }

  std::vector<std::string> Files(const Source& source, Split split) const override {
    return SplitFiles(description_, source, split, {ListOpsInData, {}});
  }

  void Read(const Source& source, Split split, const Take& take) const override {
    for (const std::string& file : Files(source, split)) {
      const auto [text, label] = Columns(file);
      Table table(file, Table::Header::kYes, true);
      while (table.Next()) {
        const std::string_view value = table.cell(label);
        if (value.size() != 1 || value[0] < '0' || value[0] > '9') {
          throw Error(fmt::format("\"{}\", line {}: the value is \"{}\", expected 0 to 9", file,
                                  table.line(), value));
        }
        take({.first = Tokens(table.cell(text), file, table.line()),
              .label = std::string(value),
              .file = file,
              .line = table.line()});
      }
    }
  }

  std::unique_ptr<Tokenizer> FixedTokenizer() const override {
    return std::make_unique<Tokenizer>(Tokenizer::Words(Words()));
  }

 private:
  static std::pair<size_t, size_t> Columns(const std::string& file) {
    const std::vector<std::string> header = FirstRow(file);
    const auto text = std::ranges::find(header, "Source");
    const auto label = std::ranges::find(header, "Target");
    if (text == header.end() || label == header.end()) {
      throw Error(
          fmt::format("\"{}\" does not begin with a header that has the columns Source and "
                      "Target, as ListOps tables do",
                      file));
    }
    return {text - header.begin(), label - header.begin()};
  }

  TaskDescription description_{
      .name = "listops",
      .summary = "the value of a nested list of operators (Long-Range Arena)",
      .layouts =
          "a directory with basic_train.tsv, basic_val.tsv and basic_test.tsv, or one such "
          "table, with the columns Source and Target",
      .objective = Objective::kClassify,
      .tokenizer = "words",
      .vocabulary = 0,
      .length = 2000};
};

}  // namespace

std::unique_ptr<Task> MakeListOps() { return std::make_unique<ListOps>(); }

}  // namespace cosformer::data
