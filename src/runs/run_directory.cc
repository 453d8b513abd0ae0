#include "runs/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "cosformer/error.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";

fs::path CheckpointFolder(const std::string& directory) {
  return fs::path(directory) / "checkpoints";
}

// Eight digits list in the order of the steps up to a hundred million of them.
std::string CheckpointName(int64_t step) {
  return fmt::format("{}{:08}{}", kPrefix, step, kSuffix);
}

std::optional<int64_t> StepOf(const std::string& name) {
  if (name.size() < kPrefix.size() + kSuffix.size()) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size() - kSuffix.size();
  const auto result = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (result.ec != std::errc() || result.ptr != end || step < 0) return std::nullopt;
  if (name != CheckpointName(step)) return std::nullopt;
  return step;
}

}  // namespace

std::string RecipePath(const std::string& directory) {
  return (fs::path(directory) / "recipe.toml").string();
}

std::string MetricsPath(const std::string& directory) {
  return (fs::path(directory) / "metrics.jsonl").string();
}

std::string ModelPath(const std::string& directory) {
  return (fs::path(directory) / "model").string();
}

std::string CheckpointPath(const std::string& directory, int64_t step) {
  return (CheckpointFolder(directory) / CheckpointName(step)).string();
}

void CreateRunDirectory(const std::string& directory) {
  if (directory.empty()) throw Error("a run needs a directory: give a path");
  std::error_code error;
  fs::create_directories(CheckpointFolder(directory), error);
  if (error) {
    throw Error(
        fmt::format("cannot make the run directory \"{}\": {}", directory, error.message()));
  }
}

std::vector<Checkpoint> Checkpoints(const std::string& directory) {
  std::vector<Checkpoint> checkpoints;
  std::error_code error;
  fs::directory_iterator files(CheckpointFolder(directory), error);
  if (error == std::errc::no_such_file_or_directory) return checkpoints;
  if (error == std::errc::not_a_directory) {
    throw Error(fmt::format("\"{}\" is no directory, and so no run; give another", directory));
  }
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    const std::optional<int64_t> step = StepOf(files->path().filename().string());
    std::error_code vanished;  // between listing and asking
    if (step && files->is_regular_file(vanished)) {
      checkpoints.push_back({*step, files->path().string()});
    }
  }
  if (error) {
    throw Error(
        fmt::format("cannot list the checkpoints of \"{}\": {}", directory, error.message()));
  }
  std::sort(checkpoints.begin(), checkpoints.end(),
            [](const Checkpoint& a, const Checkpoint& b) { return a.step < b.step; });
  return checkpoints;
}

void PruneCheckpoints(const std::string& directory, int64_t keep) {
  if (keep < 1) {
    throw Error(fmt::format("cannot keep {} checkpoints of \"{}\": a run needs its last one", keep,
                            directory));
  }
  const std::vector<Checkpoint> checkpoints = Checkpoints(directory);
  for (size_t i = 0; i + static_cast<size_t>(keep) < checkpoints.size(); ++i) {
    std::error_code error;
    fs::remove(checkpoints[i].path, error);
    if (error) {
      throw Error(fmt::format("cannot remove the old checkpoint \"{}\": {}", checkpoints[i].path,
                              error.message()));
    }
  }
}

void RemovePartialFiles(const std::string& directory) {
  std::error_code error;
  for (const fs::path& folder :
       {fs::path(directory), CheckpointFolder(directory), fs::path(ModelPath(directory))}) {
    std::vector<fs::path> partial;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      // As report::FileWriter names them.
      if (entry.path().extension() == ".partial") partial.push_back(entry.path());
    }
    for (const fs::path& file : partial) fs::remove(file, error);
  }
}

RunLock::RunLock(const std::string& directory) {
  const std::string path = (fs::path(directory) / "lock").string();
  // Stays when the run is over: who removed it could take it from under one who just opened it.
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw Error(
        fmt::format("cannot lock the run directory \"{}\": {}", directory, std::strerror(errno)));
  }
  int result;
  do {
    result = flock(descriptor_, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  const int error_number = errno;
  close(descriptor_);
  if (error_number == EWOULDBLOCK) {
    throw Error(fmt::format(
        "another process is training in \"{}\": wait until it ends, or choose another directory",
        directory));
  }
  throw Error(fmt::format("cannot lock the run directory \"{}\": {}", directory,
                          std::strerror(error_number)));
}

RunLock::~RunLock() { close(descriptor_); }

}  // namespace cosformer
