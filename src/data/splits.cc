#include "data/splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cosformer/error.h"

namespace cosformer::data {
namespace {

namespace fs = std::filesystem;

const std::string& Given(const Source& source, Split split) {
  switch (split) {
    case Split::kTrain:
      return source.train;
    case Split::kValid:
      return source.valid;
    case Split::kTest:
      break;
  }
  return source.test;
}

bool IsDirectory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

void CheckThere(const TaskDescription& task, std::string_view option, const std::string& path) {
  std::error_code error;
  if (path.empty() || fs::exists(path, error)) return;
  throw Error(fmt::format("--{} \"{}\" {}; task {} reads {}", option, path,
                          error ? "cannot be reached: " + error.message() : "does not exist",
                          task.name, task.layouts));
}

void CheckSource(const TaskDescription& task, const Source& source) {
  CheckThere(task, "data", source.data);
  bool given = !source.data.empty();
  for (const Split split : kSplits) {
    CheckThere(task, Name(split), Given(source, split));
    given = given || !Given(source, split).empty();
  }
  if (!given) {
    throw Error(
        fmt::format("task {} has nothing to read; give --data: {}", task.name, task.layouts));
  }
  if (!source.data.empty() && !source.train.empty() && !IsDirectory(source.data)) {
    throw Error(
        fmt::format("--data \"{}\" is one file, which is for training, and so is --train "
                    "\"{}\"; give one of them",
                    source.data, source.train));
  }
}

[[noreturn]] void FailUnknown(const TaskDescription& task, std::string_view option,
                              const std::string& directory) {
  throw Error(fmt::format("--{} \"{}\" holds nothing that task {} reads; it reads {}", option,
                          directory, task.name, task.layouts));
}

}  // namespace

std::span<const std::string_view> NamesOf(Split split) {
  static constexpr std::string_view kTrain[] = {"train"};
  static constexpr std::string_view kValid[] = {"valid", "validation", "val", "dev", "eval"};
  static constexpr std::string_view kTest[] = {"test"};
  switch (split) {
    case Split::kTrain:
      return kTrain;
    case Split::kValid:
      return kValid;
    case Split::kTest:
      break;
  }
  return kTest;
}

std::vector<std::string> SplitFiles(const TaskDescription& task, const Source& source, Split split,
                                    const Layout& layout) {
  CheckSource(task, source);
  if (const std::string& given = Given(source, split); !given.empty()) {
    if (!IsDirectory(given)) return {given};
    if (!layout.in_split) {
      throw Error(
          fmt::format("--{} \"{}\" is a directory, expected one file; a directory with all "
                      "splits is --data",
                      Name(split), given));
    }
    std::vector<std::string> files = layout.in_split(given);
    if (files.empty()) FailUnknown(task, Name(split), given);
    return files;
  }
  if (source.data.empty()) return {};
  if (!IsDirectory(source.data)) {
    return split == Split::kTrain ? std::vector{source.data} : std::vector<std::string>{};
  }
  std::vector<std::string> files = layout.in_data(source.data, split);
  const bool known = !files.empty() || std::ranges::any_of(kSplits, [&](Split other) {
    return !layout.in_data(source.data, other).empty();
  });
  if (!known) FailUnknown(task, "data", source.data);
  return files;
}

std::optional<std::string> FindSplitFile(const std::string& directory, Split split,
                                         std::string_view prefix, std::string_view suffix) {
  std::optional<std::string> found;
  for (const std::string_view name : NamesOf(split)) {
    std::string path = (fs::path(directory) / fmt::format("{}{}{}", prefix, name, suffix)).string();
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    if (found) {
      throw Error(fmt::format("both \"{}\" and \"{}\" could be the {} split; name one with --{}",
                              *found, path, Name(split), Name(split)));
    }
    found = std::move(path);
  }
  return found;
}

}  // namespace cosformer::data
