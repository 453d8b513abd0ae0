#include "cli/table.h"

#include <algorithm>

#include "report/terminal.h"

namespace cosformer::cli {

std::string TableText(const std::vector<std::vector<std::string>>& rows, std::string_view columns) {
  std::vector<int> widths(columns.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], report::ColumnsOf(row[i]));
    }
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(static_cast<size_t>(widths[i] - report::ColumnsOf(row[i])), ' ');
      if (i > 0) line += "  ";
      line += columns[i] == 'l' ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return table;
}

}  // namespace cosformer::cli
