#include "data/tasks/classify_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "cosformer/error.h"
#include "data/utf8.h"
#include "formats/option_reader.h"

namespace cosformer::data {
namespace {

using Row = std::vector<std::string>;

// Two texts to be compared, in their order.
constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
    {"sentence1", "sentence2"}, {"question1", "question2"}, {"question", "sentence"},
    {"#1 String", "#2 String"}, {"premise", "hypothesis"},  {"text1", "text2"},
};
constexpr std::string_view kTexts[] = {"sentence",  "text",      "review",  "content", "question",
                                       "sentence1", "question1", "premise", "text1",   "#1 String"};
constexpr std::string_view kLabels[] = {"gold_label",   "label", "Quality",
                                        "is_duplicate", "class", "target"};

std::optional<size_t> Find(const Row& row, std::string_view name) {
  const auto found = std::ranges::find(row, name);
  if (found == row.end()) return std::nullopt;
  return static_cast<size_t>(found - row.begin());
}

std::optional<size_t> FindAny(const Row& row, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto column = Find(row, name)) return column;
  }
  return std::nullopt;
}

bool IsNumber(std::string_view column) {
  return !column.empty() && column.find_first_not_of("0123456789") == std::string_view::npos;
}

// The first row for an error; without a header its cells can be whole texts.
std::string Show(const Row& row) {
  constexpr size_t kMost = 32;
  std::vector<std::string> cells;
  for (const std::string& cell : row) {
    const bool is_long = cell.size() > kMost;
    cells.push_back(fmt::format(
        "\"{}{}\"", std::string_view(cell).substr(0, is_long ? Utf8Boundary(cell, kMost) : kMost),
        is_long ? "..." : ""));
  }
  return fmt::format("{}", fmt::join(cells, ", "));
}

size_t ByNumber(const std::string& file, const Row& row, std::string_view option,
                const std::string& column) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(column.data(), column.data() + column.size(), number);
  if (error != std::errc() || number == 0 || number > row.size()) {
    throw Error(fmt::format(
        "--{} is {}, but \"{}\" has {} columns, counted from 1; a number means that the file has "
        "no header",
        option, column, file, row.size()));
  }
  return number - 1;
}

size_t ByName(const std::string& file, const Row& row, std::string_view option,
              const std::string& column) {
  if (const auto found = Find(row, column)) return *found;
  const std::string nearest = Nearest(column, row);
  throw Error(fmt::format(
      "\"{}\" has no column \"{}\" for --{}{}; its first line has {}", file, column, option,
      nearest.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", nearest), Show(row)));
}

Columns FindNumbered(const std::string& file, const Row& row, const Source& source) {
  for (const auto& [option, column, optional] :
       {std::tuple{"text-column", source.text_column, false},
        {"label-column", source.label_column, false},
        {"pair-column", source.pair_column, true}}) {
    if (IsNumber(column) || (optional && column.empty())) continue;
    throw Error(fmt::format(
        "--{} is \"{}\", but another column is given by its number, which means that \"{}\" has no "
        "header; give all of them by number, or all by name",
        option, column, file));
  }
  Columns columns{.header = Table::Header::kNo};
  columns.text = ByNumber(file, row, "text-column", source.text_column);
  columns.label = ByNumber(file, row, "label-column", source.label_column);
  if (!source.pair_column.empty()) {
    columns.pair = ByNumber(file, row, "pair-column", source.pair_column);
  }
  return columns;
}

// GLUE's CoLA: source, label, the authors' mark, sentence, and no header.
bool IsCola(const Row& row) {
  return row.size() == 4 && (row[1] == "0" || row[1] == "1") && (row[2].empty() || row[2] == "*");
}

struct Texts {
  std::optional<size_t> text, pair;
};

Texts GuessTexts(const Row& row, const Source& source) {
  // A text that was named stands alone, unless its pair was named too.
  if (source.text_column.empty() && source.pair_column.empty()) {
    for (const auto& [first, second] : kPairs) {
      const auto text = Find(row, first), pair = Find(row, second);
      if (text && pair) return {text, pair};
    }
  }
  Texts texts;
  texts.text = source.text_column.empty() ? FindAny(row, kTexts) : Find(row, source.text_column);
  if (!source.pair_column.empty()) texts.pair = Find(row, source.pair_column);
  return texts;
}

std::optional<size_t> GuessLabel(const Row& row, const Source& source) {
  return source.label_column.empty() ? FindAny(row, kLabels) : Find(row, source.label_column);
}

bool AnyNumber(const Source& source) {
  return IsNumber(source.text_column) || IsNumber(source.pair_column) ||
         IsNumber(source.label_column);
}

bool NoneNamed(const Source& source) {
  return source.text_column.empty() && source.pair_column.empty() && source.label_column.empty();
}

[[noreturn]] void FailGuess(const std::string& file, const Row& row, std::string_view what,
                            std::string_view option) {
  throw Error(fmt::format(
      "which column of \"{}\" is the {}? Its first line has {}; name the column with --{}, or give "
      "its number, from 1, if the file has no header",
      file, what, Show(row), option));
}

}  // namespace

Columns FindColumns(const std::string& file, const Source& source) {
  const Row row = FirstRow(file);
  if (AnyNumber(source)) return FindNumbered(file, row, source);
  if (NoneNamed(source) && IsCola(row)) {
    return {.header = Table::Header::kNo, .text = 3, .label = 1};
  }
  for (const auto& [option, column] : {std::pair{"text-column", source.text_column},
                                       {"pair-column", source.pair_column},
                                       {"label-column", source.label_column}}) {
    if (!column.empty()) ByName(file, row, option, column);
  }
  const Texts texts = GuessTexts(row, source);
  if (!texts.text) FailGuess(file, row, "text", "text-column");
  const std::optional<size_t> label = GuessLabel(row, source);
  if (!label) {
    if (Find(row, "score")) {
      throw Error(fmt::format(
          "\"{}\" has scores, numbers to be predicted, and no label; task classify learns classes. "
          "If there is a column of classes, name it with --label-column",
          file));
    }
    FailGuess(file, row, "label", "label-column");
  }
  return {.text = *texts.text, .pair = texts.pair, .label = *label};
}

bool IsUnlabelled(const std::string& file, const Source& source) {
  if (AnyNumber(source)) return false;
  const Row row = FirstRow(file);
  return GuessTexts(row, source).text && !GuessLabel(row, source) && !Find(row, "score");
}

}  // namespace cosformer::data
