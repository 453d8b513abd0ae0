// Rows of text in columns, for people.
#pragma once

#include <string>
#include <vector>

namespace cosformer::cli {

// All rows have as many cells. The first `left` columns begin at their left edge, the others end at
// their right one; two blanks lie between columns, and none at the end of a line.
std::string TableText(const std::vector<std::vector<std::string>>& rows, size_t left = 1);

}  // namespace cosformer::cli
