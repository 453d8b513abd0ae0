// What lies where in the directory of a training run, and who may write there:
//   recipe.toml, metrics.jsonl, checkpoints/step-00001000.safetensors, model/, lock
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cosformer {

std::string RecipePath(const std::string& directory);
std::string MetricsPath(const std::string& directory);
std::string ModelPath(const std::string& directory);
std::string CheckpointPath(const std::string& directory, int64_t step);

// Makes the directory and its checkpoints/, where they are not there.
void CreateRunDirectory(const std::string& directory);

struct Checkpoint {
  int64_t step = 0;
  std::string path;
};

// By step; none if there is no directory. What is not named as CheckpointPath() names, as files
// that are still being written, is passed over.
std::vector<Checkpoint> Checkpoints(const std::string& directory);

// Removes all but the `keep` latest; keep is at least 1.
void PruneCheckpoints(const std::string& directory, int64_t keep);

// Removes what a process that was killed left half written. Call it with the lock held: other
// processes write such files too.
void RemovePartialFiles(const std::string& directory);

// Held by the process that trains in a directory, until it ends, however it ends.
class RunLock {
 public:
  // Throws Error if another process holds it. The directory must be there.
  explicit RunLock(const std::string& directory);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  int descriptor_;
};

}  // namespace cosformer
