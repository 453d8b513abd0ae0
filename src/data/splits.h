// Which files belong to which split of a source: what the user gave by name, or else what a task
// finds in the directory `data`.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/task.h"

namespace cosformer::data {

// The names a split goes by: train; valid, validation, val, dev, eval; test.
std::span<const std::string_view> NamesOf(Split split);

// Where a task looks.
struct Layout {
  // The files of a split in the directory `data`; none where it is not there.
  std::function<std::vector<std::string>(const std::string& directory, Split split)> in_data;
  // The files of a directory that was given for one split; empty: only a file can be given.
  std::function<std::vector<std::string>(const std::string& directory)> in_split;
};

// The files of a split. One file as `data` is the training split. Throws Error, saying what the
// task reads, when nothing is given, something given is not there, or nothing in it is known.
std::vector<std::string> SplitFiles(const TaskDescription& task, const Source& source, Split split,
                                    const Layout& layout);

// prefix + name + suffix in the directory, for the one name of the split under which there is a
// file. Throws Error when there are two.
std::optional<std::string> FindSplitFile(const std::string& directory, Split split,
                                         std::string_view prefix, std::string_view suffix);

}  // namespace cosformer::data
