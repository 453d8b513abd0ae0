// One row of logits, in one pass: the largest of every run of 1024, and the sum of the run's
// exponentials. From these come the softmax over a vocabulary, its likeliest token, and which runs
// may be passed over when the likeliest few are sought.
#pragma once

#include <cstdint>

namespace cosformer {

// Sums go on in double from one run to the next: within one, 64 additions a lane at most.
constexpr int64_t kLogitRun = 1024;

constexpr int64_t RunsOf(int64_t logits) { return (logits + kLogitRun - 1) / kLogitRun; }

// largest  [RunsOf(n)], the largest logit x of each run; where NaN is among them, any number
// sums     [RunsOf(n)], or null: of exp(scale * (x - largest)) over the run, scale > 0. 0 for a run
//          that is -infinity throughout, NaN for one that holds NaN or +infinity.
// Runs in the calling thread.
void ScanLogitRuns(const float* logits, int64_t n, float scale, float* largest, float* sums);

}  // namespace cosformer
