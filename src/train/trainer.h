// The training loop: steps, evaluations, checkpoints, and a run directory that tells of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare.h"
#include "model/model.h"
#include "runs/schedule.h"
#include "train/adamw.h"
#include "train/evaluate.h"

namespace cosformer {

struct TrainOptions {
  // How long: the first of these that is set decides.
  int64_t steps = 0;
  double minutes = 0;  // as many steps as fit with all that is evaluated, judged by the speed of a
                       // few that don't count
  double epochs = 10;

  int64_t length = 512;         // of a sequence
  int64_t batch_tokens = 8192;  // of a forward and backward pass, at most
  int64_t accumulate = 1;       // passes a step
  double masked = 0.15;         // of the tokens: masked objective

  ScheduleKind schedule = ScheduleKind::kCosine;
  int64_t warmup = -1;  // steps; -1: a twentieth of all
  double final_share = 0.1;
  double power = 1;
  AdamWOptions adamw;
  double clip = 1;
  double smoothing = 0;
  uint64_t seed = 1;

  int64_t eval_every = 0;   // steps; 0: ten times in the run
  int64_t eval_tokens = 0;  // of the validation split, spread over it; 0: all
  int64_t test_tokens = 0;  // of the test split, likewise
  int64_t save_every = 0;   // steps; 0: with every evaluation
  int64_t keep = 2;         // checkpoints
  int64_t patience = 0;     // evaluations without a better one before it stops; 0: never
};

// Throws Error, naming the option, for values that no run can have.
void CheckOptions(const TrainOptions& options);

// What a run settles on before its first step, where its options leave it open.
struct SettledOptions {
  int64_t steps = 0, eval_every = 0, eval_tokens = 0;
  int threads = 0;
};

struct TrainJob {
  std::string directory;  // of the run
  const data::Task* task = nullptr;
  const data::TaskData* data = nullptr;
  TrainOptions options;
  bool faster_threads = false;  // one thread instead of torch's, where that is faster
  // What `minutes` are counted from.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  bool resume = false;  // from the last checkpoint in the directory, if there is one
  // Of a run that is resumed: options that it is to go on with otherwise than before, by name.
  std::vector<std::string> changed;
  // Called before the first step.
  std::function<void(const SettledOptions&)> settled;
};

struct TrainSummary {
  int64_t step = 0, steps = 0, tokens = 0;
  double seconds = 0;            // in all, also of earlier sessions of the run
  double tokens_per_second = 0;  // the median of this session's steps
  double waited_seconds = 0;     // for data
  int signal = 0;                // that stopped it, or 0
  bool stopped_early = false;    // by `patience`
  bool out_of_time = false;      // before the last step, since `minutes` were over
  std::optional<double> best;    // validation: loss, or accuracy where there are classes
  int64_t best_step = 0;
  double best_part = 1;            // of the validation split
  std::optional<Evaluation> test;  // of the best model, when the run is finished
};

// What batches of this task are like, for a model.
data::BatchOptions BatchOptionsFor(const data::Task& task, const Tokenizer& tokenizer,
                                   const ModelConfig& config, const TrainOptions& options);

// Throws Error when the directory holds a run that could be resumed.
void RequireNoRun(const std::string& directory);

// Trains until the end, a signal, or an error; leaves the best model in the run's directory. The
// model is as it was after the last step, or the best one if the run is finished. Throws Error, and
// writes nothing, for a finished run that is to go on with changed options.
TrainSummary Train(const TrainJob& job, Model& model);

}  // namespace cosformer
