// `cosformer bench generate`: how fast the runtime reads a prompt and writes a text, on a model of
// random weights of any size, beside what the machine could do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/machine.h"
#include "formats/config.h"
#include "kernels/weights.h"
#include "report/progress.h"

namespace cosformer::bench {

enum class Phase {
  kPrefill,  // a prompt of `context` tokens
  kDecode,   // a token at a time after `context` others
  kBatch,    // a token each for `batch` sessions at a time
  kStart,    // a new process, from nothing to its first token
};
const char* NameOf(Phase phase);

struct GenerateBenchConfig {
  ModelConfig model;                      // its positions follow from the next
  std::optional<PositionKind> positions;  // none: as training has them with that attention
  std::vector<WeightType> weights = {WeightType::kFloat32, WeightType::kBFloat16, WeightType::kInt8,
                                     WeightType::kInt4};
  std::vector<Phase> phases = {Phase::kPrefill, Phase::kDecode, Phase::kBatch, Phase::kStart};
  std::vector<int64_t> prompts = {512, 4096, 16384, 65536};
  std::vector<int64_t> contexts = {0, 4096, 65536, 1000000};
  std::vector<int64_t> batches = {1, 8, 32};
  std::vector<int> threads;  // empty: all cores
  double seconds = 1;        // for each measurement, at least
};

struct GenerateRow {
  Phase phase = Phase::kPrefill;
  WeightType weights = WeightType::kFloat32;
  int64_t context = 0;
  int64_t batch = 1;
  int threads = 0;
  double tokens_per_second = 0;  // of all sessions; for a start, one over its seconds
  // The least time that the machine's limits allow, as part of the time taken: operations at the
  // FMA peak, or bytes (weights once, states as far as a step reads and writes them) at the
  // bandwidth of doing nothing but reading the weights; whichever takes longer. Both are medians of
  // samples between the calls of the phase, as the time is one of calls. A start has none.
  std::optional<double> limit_share;
  int64_t state_bytes = 0;  // of a session
  // The process's at its highest, less what is there for other measurements: models with other
  // weights, other texts of the phase.
  std::optional<int64_t> peak_bytes;
};

// What the machine gives to weights of a type.
struct GenerateLimits {
  WeightType weights = WeightType::kFloat32;
  int threads = 0;
  double read_gbps = 0;  // of doing nothing but reading the weights
  double fma_gflops = 0;
};

struct GenerateBench {
  GenerateBenchConfig config;
  int64_t parameters = 0;
  Machine machine;  // as it is described; its own limits are not measured
  std::vector<GenerateLimits> limits;
  std::vector<std::string> notes;  // what was left out, and why
  std::vector<GenerateRow> rows;
};

GenerateBenchConfig Checked(GenerateBenchConfig config);
GenerateBench RunGenerateBench(const GenerateBenchConfig& config, report::Progress& progress);

std::string ToTable(const GenerateBench& bench);
nlohmann::json ToJson(const GenerateBench& bench);

}  // namespace cosformer::bench
