// Tables of texts: lines of cells with tabs between them, the columns' names in the first line or
// not. There is no quoting, as in GLUE: a quote is a character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/input_file.h"

namespace cosformer::data {

std::vector<std::string_view> SplitCells(std::string_view line);

// The cells of a file's first line. Throws Error when there is none.
std::vector<std::string> FirstRow(const std::string& path);

// Reads a table row by row. Every row has as many cells as the first. Throws Error, with file and
// line, for another number, for bytes that are not UTF-8 (unless any are welcome), and for a table
// without a row.
class Table {
 public:
  enum class Header { kNo, kYes };
  Table(const std::string& path, Header header, bool any_bytes);

  bool Next();  // to the next row; false at the end

  const std::string& path() const { return lines_.path(); }
  int64_t line() const { return lines_.position().line; }
  // Of the current row, valid until Next.
  std::string_view cell(size_t column) const { return cells_[column]; }
  size_t columns() const { return columns_; }

 private:
  bool NextLine();  // that is not empty

  LineReader lines_;
  bool any_bytes_;
  size_t columns_ = 0;  // 0: not yet known
  int64_t rows_ = 0;
  std::vector<std::string_view> cells_;
};

}  // namespace cosformer::data
