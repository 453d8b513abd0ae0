// Sweeps made ready to run, and how many of them share the threads.
#pragma once

#include <vector>

#include "attention/linear_kernels.h"

namespace cosformer {

// One sequence and key/value head. Owns the lists that its sweep refers to.
struct SweepJob {
  explicit SweepJob(const StateLayout& layout) : sweep(layout) {}

  Sweep sweep;  // but for its spans, which RunJobs sets
  std::vector<Operand> queries;
  std::vector<Output> outputs;
  std::vector<Operand> keys;
  std::vector<Operand> values;
  SweepAction action = SweepAction::kReadAndAbsorb;
  float* state = nullptr;          // read from and absorbed into; null: begins empty, is forgotten
  const float* distant = nullptr;  // read as well
  // Consecutive jobs of one group go through the same positions in the same way; run in step, they
  // find each other's rows in cache.
  int group = 0;
};

// Runs them all. A job that reads and absorbs without being causal absorbs all keys first. Jobs are
// spread over the threads; where that would leave threads idle, the columns of their values are
// shared out, or, for jobs with a state, the length of the longest. The results are the same to the
// bit either way.
void RunJobs(std::vector<SweepJob>& jobs, int threads);

}  // namespace cosformer
