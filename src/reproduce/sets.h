// Where the user's sets are: folders under --data, by the names that they usually have.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cosformer::reproduce {

struct Set {
  // Options of `cosformer train` and `cosformer data` that name it: ("data", "{data}/folder") and,
  // where the columns of a table have no names, their numbers.
  std::vector<std::pair<std::string, std::string>> options = {};
  std::string path = {};
  std::string absent = {};  // a sentence, if it is not there
};

// The names under which FindSet looks for a set, "aclImdb, imdb or IMDB".
std::string FoldersOf(const std::string& set);

// The folders in which GLUE's sets may also lie, "GLUE, glue, glue_data or glue_small".
std::string GlueFolders();

// `directory` is what --data gave, or empty. Sets are wikitext-2, wikitext-103, imdb, sst-2, mrpc,
// rte, qqp, mnli, amazon, retrieval, image, listops, pathfinder, and pretraining, any text.
Set FindSet(const std::string& set, const std::string& directory);

}  // namespace cosformer::reproduce
