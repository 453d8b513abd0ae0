// What `cosformer bench model` measures: how fast a whole model runs and trains with each
// attention, and how much of that is the attention and how much the matrix products.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/config.h"
#include "report/progress.h"

namespace cosformer::bench {

struct ModelBenchConfig {
  std::vector<std::string> attention = {"cosformer", "softmax"};
  std::vector<int64_t> lengths = {1024, 8192};
  std::vector<std::string> passes = {"forward", "train"};
  int threads = 0;        // 0: all cores
  int64_t tokens = 8192;  // a step: the batch is as many sequences as fit, at least one
  double seconds = 5;     // for each measurement, at least
  bool encoder = false;   // bidirectional, masked tokens; otherwise a causal decoder
  std::optional<PositionKind> positions;  // none: as training has them with that attention
  // Everything but attention, positions and max_length, which follow from the above.
  ModelConfig model;
};

struct ModelRow {
  std::string attention;
  PositionKind positions = PositionKind::kNone;
  std::string pass;  // "forward"; "train": forward, backward and update
  int64_t length = 0;
  int64_t batch = 0;
  int64_t parameters = 0;  // of the model: tables that grow with the length are among them
  int threads = 0;
  double seconds = 0;  // a step, the median
  double tokens_per_second = 0;
  // The attention alone (all layers, between the projections), timed on the same shapes, as part of
  // the step; nothing where that cannot be (PossibleShare).
  std::optional<double> attention_share;
  // The time that the model's matrix products would take at the speed of sgemm, as part of the
  // step. Products inside an attention are not among them, nor those that checkpointing repeats.
  std::optional<double> sgemm_share;
  std::optional<int64_t> peak_bytes;  // of the process
  // Of the time that its threads had work, the part in which other programs had the cores; nothing
  // where the kernel does not tell.
  std::optional<double> waited_part;

  // So that its figures are worth little.
  bool Busy() const { return waited_part.value_or(0) > 0.05; }
};

// What is a part of a step and was timed beside it: all of it where it is longer by what two
// timings differ in; nothing where it is longer by more, which cannot be.
std::optional<double> PossibleShare(double share);

struct ModelSkip {
  std::string attention;
  std::string pass;
  int64_t length = 0;
  std::string reason;
};

struct ModelBench {
  ModelBenchConfig config;
  int threads = 0;
  double sgemm_gflops = 0;  // the median of samples between the measurements
  std::string blas_complaint;
  std::vector<ModelRow> rows;
  std::vector<ModelSkip> skipped;
};

ModelBench RunModelBench(const ModelBenchConfig& config, report::Progress& progress);

std::string ToTable(const ModelBench& bench);
std::string ToJson(const ModelBench& bench);

}  // namespace cosformer::bench
