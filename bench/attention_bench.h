// `cosformer bench attention`: how long the operator takes, how much of the machine that is, and
// how it stands to softmax. Measures the machine first, checks every result before it times it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/attention_problem.h"
#include "bench/machine.h"
#include "report/progress.h"

namespace cosformer::bench {

struct AttentionBenchConfig {
  AttentionShape shape;
  std::vector<int64_t> lengths = {512, 1024, 4096, 16384};
  std::vector<int> threads;           // empty: one, and all
  std::vector<bool> causal = {true};  // modes: causal, bidirectional
  std::vector<System> systems = {System::kCosformer, System::kSoftmax};
  std::vector<Pass> passes = {Pass::kForward, Pass::kForwardBackward, Pass::kStep};
  double seconds = 0.3;                // for each measurement, at least
  int64_t max_softmax_length = 16384;  // softmax is not run beyond it
};

// What a measurement is set against.
enum class Limit {
  kFmaPeak,        // passes over a sequence
  kL2Bandwidth,    // a step with a state: reading and writing a buffer of its size
  kReadBandwidth,  // a step with a cache: reading memory. More than all of it: it came from cache
};
const char* NameOf(Limit limit);  // "fma_peak"

struct AttentionRow {
  System system = System::kCosformer;
  Pass pass = Pass::kForward;
  bool causal = true;
  int64_t length = 0;
  int threads = 0;
  double seconds = 0;      // one call, or one step; the median
  double seconds_min = 0;  // the fastest
  int samples = 0;
  double tokens_per_second = 0;
  Limit limit = Limit::kFmaPeak;
  double limit_value = 0;  // GFLOP/s or GB/s, with this number of threads
  double peak_share = 0;   // of the limit, counting useful work only
  // What one call raised the process's memory by, beyond inputs and outputs; for a step the bytes
  // of the state or cache. Nothing where the kernel can't tell.
  std::optional<int64_t> extra_bytes;
  // How many times as fast as softmax at the same length, threads, mode and pass.
  std::optional<double> ratio_to_softmax;
};

struct AttentionSkip {
  System system;
  Pass pass;
  bool causal;
  int64_t length;
  int threads;
  std::string reason;
};

struct AttentionBench {
  AttentionBenchConfig config;
  Machine machine;
  std::vector<AttentionRow> rows;  // by mode, threads, pass, length, system
  std::vector<AttentionSkip> skipped;
};

// Completes what is left open and throws Error for what can't be measured, before anything is.
AttentionBenchConfig Checked(AttentionBenchConfig config);

// `config` is a checked one.
AttentionBench RunAttentionBench(const AttentionBenchConfig& config, report::Progress& progress);

}  // namespace cosformer::bench
