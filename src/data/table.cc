#include "data/table.h"

#include <fmt/format.h>

#include "cosformer/error.h"
#include "data/utf8.h"

namespace cosformer::data {

std::vector<std::string_view> SplitCells(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t tab; (tab = line.find('\t')) != std::string_view::npos;) {
    cells.push_back(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  cells.push_back(line);
  return cells;
}

std::vector<std::string> FirstRow(const std::string& path) {
  LineReader lines(path);
  std::string_view line;
  if (!lines.Next(line)) throw Error(fmt::format("\"{}\" has no rows: it is empty", path));
  const std::vector<std::string_view> cells = SplitCells(line);
  return {cells.begin(), cells.end()};
}

Table::Table(const std::string& path, Header header, bool any_bytes)
    : lines_(path), any_bytes_(any_bytes) {
  if (header == Header::kYes && NextLine()) columns_ = cells_.size();
}

bool Table::NextLine() {
  int64_t empty = 0;
  std::string_view line;
  while (lines_.Next(line)) {
    if (line.empty()) {
      // At the end of a file empty lines mean nothing; elsewhere they are rows without cells.
      if (empty == 0) empty = lines_.position().line;
      continue;
    }
    if (empty != 0) {
      throw Error(fmt::format("\"{}\", line {} is empty; a row has cells with tabs between them",
                              path(), empty));
    }
    if (!any_bytes_) CheckUtf8(line, path(), lines_.position());
    cells_ = SplitCells(line);
    return true;
  }
  return false;
}

bool Table::Next() {
  if (!NextLine()) {
    if (rows_ > 0) return false;
    throw Error(fmt::format("\"{}\" has no rows{}", path(),
                            columns_ == 0 ? ": it is empty" : ", only a header"));
  }
  if (columns_ == 0) columns_ = cells_.size();
  if (cells_.size() != columns_) {
    throw Error(
        fmt::format("\"{}\", line {}: {} cells, but the first line has {}; cells lie "
                    "between tabs, and a text must hold none",
                    path(), line(), cells_.size(), columns_));
  }
  ++rows_;
  return true;
}

}  // namespace cosformer::data
