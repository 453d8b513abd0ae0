// The figures of a training run, in the file metrics.jsonl: a JSON object a line, appended as the
// run goes. Finite numbers come back to the bit; what is not finite is null in the file and NaN
// when read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cosformer {

// Of the steps since the last such line.
struct TrainMetrics {
  int64_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient = 0;  // its norm
  int64_t tokens = 0;   // trained on since the run began
  double seconds = 0;   // spent since the run began
  double tokens_per_second = 0;
};

struct EvalMetrics {
  int64_t step = 0;
  std::string split;
  double loss = 0;
  std::optional<double> perplexity = std::nullopt;
  std::optional<double> accuracy = std::nullopt;  // a share of 1
  int64_t tokens = 0;  // both as in TrainMetrics: where in the run this was
  double seconds = 0;
};

class MetricsFile {
 public:
  // Opens the file to append to it, or creates it. A run that is resumed passes the step it resumes
  // from: lines past it are dropped, and a last line that a power cut left half, and the test
  // split's, which is reported again when the run ends. One that starts afresh passes -1. Throws
  // Error for a file that is not of this kind, and leaves it alone.
  MetricsFile(const std::string& path, int64_t keep_steps);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

  // Appends a line. On failure (full disk) throws Error, and no part of the line stays.
  void Add(const TrainMetrics& metrics);
  void Add(const EvalMetrics& metrics);

 private:
  void Append(const std::string& line);

  std::string path_;
  int descriptor_;
};

struct History {
  std::vector<TrainMetrics> train;
  std::vector<EvalMetrics> evals;
};

// Throws Error with the number of the line that is wrong. A half last line is left out: the run may
// be writing it. Unknown keys and kinds are passed over, for files of later versions.
History ReadMetrics(const std::string& path);

// The evaluation to be proud of.
struct Best {
  std::string split;
  std::string figure;  // "accuracy", "perplexity" or "loss"
  double value = 0;
  int64_t step = 0;
};

// By accuracy if any evaluation has it, else by perplexity, else by loss, and of equals the first;
// on the split "valid" if it is there, else on the one that came first. Nothing if no evaluation
// has a number.
std::optional<Best> BestOf(const History& history);

}  // namespace cosformer
