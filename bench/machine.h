// The machine's own limits, measured in the run whose figures are set against them: what the
// multiply-add units, the memory and the caches give at best.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "report/progress.h"

namespace cosformer::bench {

using Bytes = std::span<const uint8_t>;

struct Limits {
  double fma_gflops = 0;  // float32 multiply-adds on registers, each counted as two operations
  double read_gbps = 0;   // reading a buffer that caches can't hold; 1 GB is 10^9 bytes
  // Reading and writing again a buffer of `update_bytes` a thread, over and over; both directions
  // counted. With the size of a decoding state it is the limit of a decoding step.
  double update_gbps = 0;
};

struct Machine {
  std::string cpu;     // model name
  std::string target;  // the instruction set in use, as Highway names it
  int threads = 0;     // that OpenMP would use at most: the cores this process may run on
  int64_t read_bytes = 0;
  int64_t update_bytes = 0;
  int64_t last_cache_bytes = 0;  // 0: not known
  std::map<int, Limits> limits;  // by number of threads; 1 and `threads` are always there

  const Limits& For(int threads_used) const { return limits.at(threads_used); }
  // Whether the buffer of read_gbps is large enough that caches hold little of it.
  bool ReadsMemory() const { return read_bytes >= 3 * last_cache_bytes; }
};

// The cores this process may run on.
int AllThreads();

// What is known without measuring, and how large the buffers are to be. Little time for each
// measurement also means a smaller buffer for read_gbps.
Machine DescribeMachine(const std::vector<int>& thread_counts, int64_t update_bytes,
                        double seconds);

// Measures each limit for `seconds` and keeps the best of several short runs, and of what was known
// before: other programs take time from some runs, and from some minutes. Call it at the beginning
// and at the end of what is set against it.
void MeasureLimits(Machine& machine, double seconds, report::Progress& progress);

// The FMA rate of one run of a millisecond or two, in GFLOP/s; the bandwidth of reading all of
// `pieces` once, each thread its part, in GB/s. For sampling what a shared machine has to give
// between the calls that are timed.
double SampleMultiplyAdds(int threads);
double SampleReads(std::span<const Bytes> pieces, int threads);

}  // namespace cosformer::bench
