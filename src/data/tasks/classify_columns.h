// Which columns of a table hold the texts and the label: as the user says, or by the names that
// common data sets give them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/table.h"
#include "data/task.h"

namespace cosformer::data {

struct Columns {
  Table::Header header = Table::Header::kYes;
  size_t text = 0;
  std::optional<size_t> pair{};
  size_t label = 0;
};

// Throws Error when a column is not there, with the columns that are.
Columns FindColumns(const std::string& file, const Source& source);

// Whether the file's header names a text but no label, as GLUE's test files do.
bool IsUnlabelled(const std::string& file, const Source& source);

}  // namespace cosformer::data
