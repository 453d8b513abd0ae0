// Rows of text in columns, for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cosformer::cli {

// A letter of `columns` stands for each: 'l' where cells begin at their left edge, 'r' where they
// end at their right one. All rows have as many cells. Two blanks lie between columns, and none at
// the end of a line.
std::string TableText(const std::vector<std::vector<std::string>>& rows, std::string_view columns);

}  // namespace cosformer::cli
