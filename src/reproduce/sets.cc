#include "reproduce/sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>

namespace cosformer::reproduce {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kGlueFolders = {"GLUE", "glue", "glue_data", "glue_small"};

struct Known {
  std::vector<std::string> folders;
  // One of these must be in the folder; none: any folder or file will do.
  std::vector<std::string> holds = {};
  bool glue = false;  // may also lie in a folder of GLUE's sets
};

const Known& KnownSet(const std::string& set) {
  static const std::vector<std::string> kTables = {"train.tsv"};
  static const std::map<std::string, Known> kSets = {
      {"wikitext-2", {{"wikitext-2", "wikitext-2-v1", "wikitext-2-raw"}}},
      {"wikitext-103", {{"wikitext-103", "wikitext-103-v1", "wikitext-103-raw"}}},
      {"imdb", {{"aclImdb", "imdb", "IMDB"}, {"train.tsv", "train"}}},
      {"sst-2", {{"SST-2", "sst-2", "sst2"}, kTables, true}},
      {"mrpc", {{"MRPC", "mrpc"}, kTables, true}},
      {"rte", {{"RTE", "rte"}, kTables, true}},
      {"qqp", {{"QQP", "qqp"}, kTables, true}},
      {"mnli", {{"MNLI", "mnli"}, kTables, true}},
      {"amazon", {{"amazon", "AMAZON"}, {"train.tsv", "train"}}},
      {"retrieval", {{"aan", "retrieval"}, {"new_aan_pairs.train.tsv", "pairs.train.tsv"}}},
      {"image",
       {{"cifar10", "cifar-10-batches-bin", "cifar10_gray", "image"},
        {"data_batch_1.bin", "train.bin"}}},
      {"listops", {{"listops", "listops-1000"}, {"basic_train.tsv"}}},
      {"pathfinder", {{"pathfinder", "pathfinder32"}, {"train.bin"}}},
      {"pretraining",
       {{"pretraining", "pretraining.txt", "imdb_unsup.txt", "wikitext-103", "wikitext-2"}}},
  };
  return kSets.at(set);
}

// IMDB as one table a split, without a header: class, rating, number, text.
bool IsPlainReviewTable(const fs::path& table) {
  std::ifstream file(table);
  std::string line;
  if (!std::getline(file, line)) return false;
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  return tabs == 3 && line.size() > 2 && (line[0] == '0' || line[0] == '1') && line[1] == '\t';
}

Set SetAt(const std::string& set, const fs::path& directory, const fs::path& path) {
  Set found{.path = path.string()};
  const std::string folder = "{data}/" + path.lexically_relative(directory).string();
  found.options = {{"data", folder}};
  if (set == "imdb" && IsPlainReviewTable(path / "train.tsv")) {
    found.options.insert(found.options.end(), {{"text-column", "4"}, {"label-column", "1"}});
  }
  // Two validation sets; the one in the genres of the training set is what is reported.
  if (set == "mnli" && fs::exists(path / "dev_matched.tsv")) {
    found.options = {{"train", folder + "/train.tsv"}, {"valid", folder + "/dev_matched.tsv"}};
  }
  return found;
}

std::string OneOf(std::span<const std::string> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace

std::string FoldersOf(const std::string& set) { return OneOf(KnownSet(set).folders); }

std::string GlueFolders() { return OneOf(kGlueFolders); }

Set FindSet(const std::string& set, const std::string& directory) {
  const Known& known = KnownSet(set);
  if (!directory.empty()) {
    std::vector<fs::path> places = {directory};
    if (known.glue) {
      for (const std::string& folder : kGlueFolders) {
        places.push_back(fs::path(directory) / folder);
      }
    }
    for (const fs::path& place : places) {
      for (const std::string& folder : known.folders) {
        const fs::path path = place / folder;
        if (!fs::exists(path)) continue;
        const bool whole =
            known.holds.empty() ||
            std::any_of(known.holds.begin(), known.holds.end(),
                        [&](const std::string& name) { return fs::exists(path / name); });
        if (whole) return SetAt(set, directory, path);
      }
    }
  }
  std::string wanted;
  for (const std::string& name : known.holds) wanted += (wanted.empty() ? "" : " or ") + name;
  Set missing;
  missing.absent = fmt::format(
      "The set {} is not there: {}{}{}.", set,
      directory.empty() ? fmt::format("give --data a directory with a folder {}", FoldersOf(set))
                        : fmt::format("--data has no folder {}", FoldersOf(set)),
      known.glue ? fmt::format(", itself or in {}", GlueFolders()) : "",
      wanted.empty() ? "" : fmt::format(", that holds {}", wanted));
  return missing;
}

}  // namespace cosformer::reproduce
