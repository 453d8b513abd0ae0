#include "train/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include "cosformer/error.h"
#include "data/loader.h"
#include "formats/task_card.h"
#include "model/model_files.h"
#include "report/clock.h"
#include "report/interrupt.h"
#include "report/meter.h"
#include "report/statistics.h"
#include "report/units.h"
#include "runs/metrics.h"
#include "runs/run_directory.h"
#include "train/objective.h"
#include "train/pace.h"
#include "train/training_state.h"

namespace cosformer {
namespace {

using report::Clock;
using report::SecondsSince;

bool HasClasses(data::Objective objective) {
  return objective == data::Objective::kClassify || objective == data::Objective::kRetrieve;
}

// For a line about a figure of a part of a split; nothing if it is of all.
std::string PartOf(double part, const std::string& split) {
  return part < 1 ? fmt::format("  of {:.2g} % of the {} split", 100 * part, split) : "";
}

// One run, from the first step of this session to the last.
class Run {
 public:
  Run(const TrainJob& job, Model& model)
      : job_(job),
        options_(job.options),
        model_(model),
        objective_(job.task->description().objective),
        batch_options_(
            BatchOptionsFor(*job.task, job.data->tokenizer, model->config(), job.options)),
        batches_(*job.data->train, batch_options_),
        optimiser_(GroupsOf(*model), job.options.adamw),
        lock_((CreateRunDirectory(job.directory), job.directory)) {
    RemovePartialFiles(job.directory);
    state_.data = job.data->train->info().checksum +
                  (job.data->valid ? job.data->valid->info().checksum : "");
    if (!job.resume) RequireNoRun(job.directory);
    const std::vector<Checkpoint> checkpoints = Checkpoints(job.directory);
    if (!checkpoints.empty()) {
      LoadLast(checkpoints);
      resumed_ = true;
    }
  }

  TrainSummary Go() {
    Settle();
    if (job_.data->valid && eval_tokens_ > 0) {
      summary_.best_part = std::min(
          1.0, static_cast<double>(eval_tokens_) / static_cast<double>(job_.data->valid->tokens()));
    }
    if (resumed_) RefuseWithoutEffect();
    PrepareModelDirectory();
    if (job_.settled)
      job_.settled({state_.steps, eval_every_, eval_tokens_, at::get_num_threads()});
    metrics_ =
        std::make_unique<MetricsFile>(MetricsPath(job_.directory), resumed_ ? state_.step : -1);
    begin_ = Clock::now();
    earlier_seconds_ = state_.seconds;
    if (resumed_) {
      meter_.Line(fmt::format("going on from step {} of {}", report::FormatInteger(state_.step),
                              report::FormatInteger(state_.steps)));
    }
    const Interrupt interrupt;
    data::Loader loader(batches_, state_.place);
    model_->train();
    while (state_.step < state_.steps && !Exhausted()) {
      Step(loader);
      summary_.out_of_time = state_.step < state_.steps && TimeIsOver();
      const bool last = state_.step == state_.steps || summary_.out_of_time;
      const bool evaluated = last || state_.step % eval_every_ == 0;
      if (evaluated) EvaluateNow();
      if (evaluated || state_.step % save_every_ == 0 || interrupt.Signal() != 0) Save();
      if (interrupt.Signal() != 0 && !last) {
        summary_.signal = interrupt.Signal();
        break;
      }
      if (last) break;
    }
    meter_.Clear();
    summary_.stopped_early = Exhausted() && state_.step < state_.steps;
    summary_.waited_seconds = loader.waited_seconds();
    if (summary_.signal == 0) Conclude();
    return Summary();
  }

 private:
  void LoadLast(const std::vector<Checkpoint>& checkpoints) {
    try {
      state_ = LoadTrainingState(checkpoints.back().path, model_, optimiser_, state_.data);
    } catch (const DamagedCheckpoint& error) {
      throw Error(fmt::format(
          "{}; {}", error.what(),
          checkpoints.size() > 1
              ? fmt::format("remove it, and the run goes on from step {}",
                            report::FormatInteger(checkpoints[checkpoints.size() - 2].step))
              : "there is none before it: begin again, with another --out"));
    }
  }

  bool Exhausted() const { return options_.patience > 0 && state_.stale >= options_.patience; }

  // A run that has nothing left to do stays what it is.
  void RefuseWithoutEffect() const {
    const std::string done = report::FormatInteger(state_.step);
    if (state_.step > state_.steps) {
      throw Error(fmt::format("--steps is {}, but \"{}\" has done {} steps: give more than that",
                              report::FormatInteger(state_.steps), job_.directory, done));
    }
    if (job_.changed.empty() || (state_.step < state_.steps && !Exhausted())) return;
    throw Error(fmt::format("\"{}\" is finished, at step {}: {} would change nothing; {}",
                            job_.directory, done, fmt::join(job_.changed, ", "),
                            Exhausted() ? "with a larger --patience, or 0, it goes on"
                                        : fmt::format("with --steps above {} it goes on", done)));
  }

  // How many steps there are, and how often there is something else to do.
  void Settle() {
    if (job_.faster_threads) {
      const int all = at::get_num_threads();
      if (FasterThreads(*model_, batches_, objective_) < all) {
        fmt::print(stderr,
                   "one thread: {} are slower here, for this model or beside other processes; "
                   "--threads {} uses them all the same\n",
                   all, all);
      }
    }
    eval_every_ = options_.eval_every;
    eval_tokens_ = options_.eval_tokens;
    if (options_.steps > 0) {
      state_.steps = options_.steps;
    } else if (state_.steps == 0 && options_.minutes > 0) {
      SettleByTime(60 * options_.minutes);
    } else if (state_.steps == 0) {
      const auto batches = static_cast<double>(batches_.PlanOf(0).batches());
      state_.steps =
          std::llround(options_.epochs * batches / static_cast<double>(options_.accumulate));
    }
    state_.steps = std::max<int64_t>(1, state_.steps);
    if (eval_every_ == 0) eval_every_ = std::max<int64_t>(1, (state_.steps + 9) / 10);
    save_every_ = options_.save_every > 0 ? options_.save_every : eval_every_;
    schedule_.kind = options_.schedule;
    schedule_.peak = options_.adamw.lr;
    schedule_.warmup = options_.warmup >= 0 ? options_.warmup : (state_.steps + 19) / 20;
    schedule_.steps = state_.steps;
    schedule_.final_share = options_.final_share;
    schedule_.power = options_.power;
    schedule_.Check();
  }

  // As many steps as fit into the time with all that is evaluated: the validation split ten times,
  // or less often, or a part of it, so that it takes a fifth of the time at most; and the test
  // split at the end, which may take as much.
  void SettleByTime(double seconds) {
    constexpr double kMeasured = 0.1;  // to find out the speed, once memory is touched
    constexpr double kPlanned = 0.95;  // the rest is for checkpoints, and for what goes slower
    constexpr double kEvaluated = 0.2;
    deadline_ = job_.begin + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(std::min(seconds, 1e9)));
    report::Meter meter;  // its own: the time that is left is judged by steps alone
    meter.Show(0, "measuring the speed");
    const Pace pace = MeasurePace(*model_, batches_, objective_, kMeasured * seconds);
    meter.Clear();
    evaluation_seconds_ = pace.evaluation_seconds;
    const double left = kPlanned * SecondsLeft();
    const double most = kEvaluated * left;
    test_seconds_ = std::min(most, EvaluationSeconds(job_.data->test, options_.test_tokens));
    if (EvaluationSeconds(job_.data->valid, eval_tokens_) > most) {
      eval_tokens_ = std::max<int64_t>(1, std::llround(most / pace.evaluation_seconds));
    }
    const double evaluation = EvaluationSeconds(job_.data->valid, eval_tokens_);
    const double step =
        pace.pass_seconds * static_cast<double>(options_.accumulate) + pace.update_seconds;
    const double for_steps = left - test_seconds_;
    if (eval_every_ > 0) {
      const double each = step + evaluation / static_cast<double>(eval_every_);
      state_.steps = std::llround(for_steps / each);
      return;
    }
    const double evaluations =
        std::clamp(evaluation > 0 ? std::floor(most / evaluation) : 10.0, 1.0, 10.0);
    state_.steps =
        std::max<int64_t>(1, std::llround((for_steps - evaluations * evaluation) / step));
    eval_every_ = std::llround(std::ceil(static_cast<double>(state_.steps) / evaluations));
  }

  // Of so many tokens of a split, or of all that it has.
  double EvaluationSeconds(const std::optional<data::Dataset>& split, int64_t tokens) const {
    if (!split) return 0;
    const int64_t all = split->tokens();
    return evaluation_seconds_ * static_cast<double>(tokens > 0 ? std::min(all, tokens) : all);
  }

  double SecondsLeft() const { return std::max(0.0, -report::SecondsSince(*deadline_)); }

  // Whether there is no time for another step, with what comes after the last.
  bool TimeIsOver() const {
    if (!deadline_) return false;
    return SecondsLeft() < EvaluationSeconds(job_.data->valid, eval_tokens_) + test_seconds_ +
                               save_seconds_ + step_seconds_ / static_cast<double>(shown_steps_);
  }

  void PrepareModelDirectory() {
    const std::string directory = ModelPath(job_.directory);
    std::filesystem::create_directories(directory);
    job_.data->tokenizer.Save(directory);
    WriteTaskCard(directory, {job_.task->description().name, job_.data->labels,
                              objective_ == data::Objective::kRetrieve ||
                                  objective_ == data::Objective::kTranslate ||
                                  job_.data->train->info().parts == 2,
                              job_.data->tokenizer.Fingerprint()});
  }

  // One update of the weights, from as many passes as are accumulated; each counts as its targets.
  void Step(data::Loader& loader) {
    const Clock::time_point begin = Clock::now();
    std::vector<data::Batch> batches;
    int64_t targets = 0, tokens = 0;
    for (int64_t pass = 0; pass < options_.accumulate; ++pass) {
      data::Loader::Loaded loaded = loader.Next();
      state_.place = loaded.next;
      targets += loaded.batch.Targets();
      tokens += loaded.batch.Tokens();
      batches.push_back(std::move(loaded.batch));
    }
    const double rate = schedule_.LearningRate(state_.step + 1);
    double loss = 0;
    int64_t correct = 0;
    for (const data::Batch& batch : batches) {
      const LossResult result = TrainingLoss(*model_, batch, objective_, options_.smoothing);
      if (result.counted == 0) continue;
      const double share = static_cast<double>(result.counted) / static_cast<double>(targets);
      loss += result.loss.item<double>() * share;
      correct += std::max<int64_t>(0, result.correct);
      (batches.size() == 1 ? result.loss : result.loss * share).backward();
    }
    const double gradient = optimiser_.ClipGradients(options_.clip);
    // Without the sign, which of what is no number says nothing.
    if (!std::isfinite(loss) || !std::isfinite(gradient)) {
      Diverged(
          fmt::format("at step {} the loss is {} and its gradient {}",
                      report::FormatInteger(state_.step + 1), std::abs(loss), std::abs(gradient)),
          rate);
    }
    optimiser_.Step(rate);
    optimiser_.ZeroGradients();

    ++state_.step;
    state_.tokens += tokens;
    const double seconds = SecondsSince(begin);
    step_seconds_ += seconds;
    step_tokens_ += tokens;
    state_.seconds = earlier_seconds_ + SecondsSince(begin_);
    step_speeds_.push_back(static_cast<double>(tokens) / seconds);
    metrics_->Add(TrainMetrics{state_.step, loss, rate, gradient, state_.tokens, state_.seconds,
                               step_speeds_.back()});
    ShowStep(loss,
             static_cast<double>(correct) / static_cast<double>(std::max<int64_t>(1, targets)),
             rate);
  }

  // Means of the last steps, so that the eye can follow.
  void ShowStep(double loss, double accuracy, double rate) {
    constexpr double kKeep = 0.95;
    const bool first = shown_steps_++ == 0;
    shown_loss_ = first ? loss : kKeep * shown_loss_ + (1 - kKeep) * loss;
    shown_accuracy_ = first ? accuracy : kKeep * shown_accuracy_ + (1 - kKeep) * accuracy;
    const std::string figure = HasClasses(objective_)
                                   ? fmt::format("accuracy {:.1f} %", 100 * shown_accuracy_)
                                   : fmt::format("perplexity {:.1f}", std::exp(shown_loss_));
    meter_.Show(
        static_cast<double>(state_.step) / static_cast<double>(state_.steps),
        fmt::format("step {} of {}  loss {:.3f}  {}  lr {:.1e}  {} tokens/s",
                    report::FormatInteger(state_.step), report::FormatInteger(state_.steps),
                    shown_loss_, figure, rate,
                    report::FormatCount(static_cast<double>(step_tokens_) / step_seconds_)));
  }

  [[noreturn]] void Diverged(const std::string& what, double rate) {
    meter_.Clear();
    const std::vector<Checkpoint> checkpoints = Checkpoints(job_.directory);
    const std::string back =
        checkpoints.empty()
            ? "There is no checkpoint yet: begin again"
            : fmt::format(
                  "The last checkpoint is of step {}: go on from it with --resume {} and "
                  "one of these",
                  report::FormatInteger(checkpoints.back().step), job_.directory);
    throw Error(fmt::format(
        "{}, at a learning rate of {:.2g}: the model has diverged. Try a lower --lr, a longer "
        "--warmup or a smaller --clip; with attention whose weights can sum to nothing (identity "
        "features) the option \"normaliser\": \"norm\". {}",
        what, rate, back));
  }

  // Of the validation split; the model is kept if it is the best so far.
  void EvaluateNow() {
    if (!job_.data->valid) return;
    const Evaluation evaluation =
        Evaluate(*model_, *job_.data->valid, batch_options_, eval_tokens_, [&](double done) {
          meter_.Show(static_cast<double>(state_.step) / static_cast<double>(state_.steps),
                      fmt::format("step {}: evaluating, {:.0f} %",
                                  report::FormatInteger(state_.step), 100 * done));
        });
    evaluation_seconds_ = evaluation.seconds / evaluation.part /
                          static_cast<double>(std::max<int64_t>(1, job_.data->valid->tokens()));
    summary_.best_part = evaluation.part;
    const double figure = HasClasses(objective_) ? -evaluation.Accuracy() : evaluation.Loss();
    if (!std::isfinite(evaluation.Loss())) {
      Diverged(fmt::format("after step {} the loss on the validation split is {}",
                           report::FormatInteger(state_.step), std::abs(evaluation.Loss())),
               schedule_.LearningRate(state_.step));
    }
    const bool best = !state_.best || figure < *state_.best;
    if (best) {
      SaveModel(*model_, ModelPath(job_.directory));
      state_.best = figure;
      state_.best_step = state_.step;
      state_.stale = 0;
    } else {
      ++state_.stale;
    }
    state_.seconds = earlier_seconds_ + SecondsSince(begin_);
    Report("valid", evaluation, best ? "  best so far" : "");
  }

  void Report(const std::string& split, const Evaluation& evaluation, const std::string& remark) {
    EvalMetrics metrics;
    metrics.step = state_.step;
    metrics.split = split;
    metrics.loss = evaluation.Loss();
    metrics.tokens = state_.tokens;
    metrics.seconds = state_.seconds;
    std::string figure;
    if (HasClasses(objective_)) {
      metrics.accuracy = evaluation.Accuracy();
      figure = fmt::format("accuracy {:.2f} %", 100 * evaluation.Accuracy());
    } else {
      metrics.perplexity = std::exp(evaluation.Loss());
      figure = fmt::format("perplexity {:.2f}", std::exp(evaluation.Loss()));
    }
    metrics_->Add(metrics);
    meter_.Line(fmt::format("step {:>8}  {:<5}  loss {:.4f}  {}{}{}",
                            report::FormatInteger(state_.step), split, evaluation.Loss(), figure,
                            PartOf(evaluation.part, split), remark));
  }

  void Save() {
    const Clock::time_point begin = Clock::now();
    SaveTrainingState(CheckpointPath(job_.directory, state_.step), model_, optimiser_, state_);
    PruneCheckpoints(job_.directory, options_.keep);
    save_seconds_ = SecondsSince(begin);
  }

  // The run is over: the best model is the result, and its figure on what it never saw.
  void Conclude() {
    const std::string directory = ModelPath(job_.directory);
    if (!job_.data->valid) {
      SaveModel(*model_, directory);
      return;
    }
    LoadModelWeights(*model_, directory);
    if (!job_.data->test) return;
    int64_t tokens = options_.test_tokens;
    if (deadline_ && SecondsLeft() < EvaluationSeconds(job_.data->test, tokens)) {
      tokens = std::max<int64_t>(1, std::llround(SecondsLeft() / evaluation_seconds_));
    }
    summary_.test = Evaluate(*model_, *job_.data->test, batch_options_, tokens, [&](double done) {
      meter_.Show(1, fmt::format("the best model on the test split, {:.0f} %", 100 * done));
    });
    Report("test", *summary_.test, "");
    meter_.Clear();
  }

  TrainSummary Summary() {
    summary_.step = state_.step;
    summary_.steps = state_.steps;
    summary_.tokens = state_.tokens;
    summary_.seconds = state_.seconds;
    summary_.tokens_per_second = step_speeds_.empty() ? 0 : report::Median(step_speeds_);
    if (state_.best) summary_.best = HasClasses(objective_) ? -*state_.best : *state_.best;
    summary_.best_step = state_.best_step;
    return summary_;
  }

  const TrainJob& job_;
  const TrainOptions& options_;
  Model& model_;
  data::Objective objective_;
  data::BatchOptions batch_options_;
  data::Batches batches_;
  AdamW optimiser_;
  RunLock lock_;
  TrainingState state_;
  bool resumed_ = false;
  Schedule schedule_;
  int64_t eval_every_ = 1, save_every_ = 1, eval_tokens_ = 0;
  std::optional<Clock::time_point> deadline_;  // where it has so many minutes
  double evaluation_seconds_ = 0;              // of a token
  double test_seconds_ = 0;                    // that are kept for the test split
  double save_seconds_ = 0;                    // of the last checkpoint
  std::unique_ptr<MetricsFile> metrics_;
  report::Meter meter_;
  Clock::time_point begin_;
  double earlier_seconds_ = 0;  // of earlier sessions
  double step_seconds_ = 0;     // of this one
  int64_t step_tokens_ = 0;
  std::vector<double> step_speeds_;  // tokens a second
  double shown_loss_ = 0, shown_accuracy_ = 0;
  int64_t shown_steps_ = 0;
  TrainSummary summary_;
};

}  // namespace

void CheckOptions(const TrainOptions& options) {
  const auto require = [](bool holds, const char* option, auto value, const char* what) {
    if (!holds) throw Error(fmt::format("{} is {}; it must be {}", option, value, what));
  };
  const auto at_least = [&](int64_t least, const char* option, int64_t value) {
    require(value >= least, option, value, least == 0 ? "at least 0" : "at least 1");
  };
  const auto below_one = [&](const char* option, double value) {
    require(value >= 0 && value < 1, option, value, "from 0 to below 1");
  };
  const auto finite = [&](bool holds, const char* option, double value, const char* what) {
    require(holds && std::isfinite(value), option, value, what);
  };
  require(options.steps >= 0, "--steps", options.steps, "at least 1");
  constexpr double kMost = 1e9;
  require(options.minutes >= 0 && options.minutes < kMost, "--minutes", options.minutes,
          "more than 0 and below 1e9");
  require(options.epochs > 0 && options.epochs < kMost, "--epochs", options.epochs,
          "more than 0 and below 1e9");
  require(options.length == 0 || options.length >= 2, "--length", options.length,
          "at least 2 tokens, or 0 for the task's");
  at_least(1, "--batch-tokens", options.batch_tokens);
  require(options.accumulate >= 1 && options.accumulate <= 1'000'000, "--accumulate",
          options.accumulate, "from 1 to 1,000,000");
  require(options.masked > 0 && options.masked < 1, "--masked", options.masked, "between 0 and 1");
  finite(options.adamw.lr > 0, "--lr", options.adamw.lr, "more than 0");
  require(options.warmup >= -1, "--warmup", options.warmup,
          "a number of steps, or -1 for a twentieth of all");
  require(options.final_share >= 0 && options.final_share <= 1, "--final-lr", options.final_share,
          "from 0 to 1");
  finite(options.power > 0, "--power", options.power, "more than 0");
  below_one("--beta1", options.adamw.beta1);
  below_one("--beta2", options.adamw.beta2);
  finite(options.adamw.epsilon > 0, "--epsilon", options.adamw.epsilon, "more than 0");
  finite(options.adamw.weight_decay >= 0, "--weight-decay", options.adamw.weight_decay,
         "0 or more");
  finite(options.clip >= 0, "--clip", options.clip, "0 or more");
  below_one("--smoothing", options.smoothing);
  at_least(0, "--eval-every", options.eval_every);
  at_least(0, "--eval-tokens", options.eval_tokens);
  at_least(0, "--test-tokens", options.test_tokens);
  at_least(0, "--save-every", options.save_every);
  at_least(1, "--keep", options.keep);
  at_least(0, "--patience", options.patience);
}

data::BatchOptions BatchOptionsFor(const data::Task& task, const Tokenizer& tokenizer,
                                   const ModelConfig& config, const TrainOptions& options) {
  data::BatchOptions batch;
  batch.objective = task.description().objective;
  batch.special = tokenizer.special();
  batch.length = options.length;
  batch.tokens = options.batch_tokens;
  batch.packing = CanPack(config);
  batch.images = task.description().image.height > 0;
  batch.masked = options.masked;
  batch.seed = options.seed;
  return batch;
}

void RequireNoRun(const std::string& directory) {
  if (Checkpoints(directory).empty()) return;
  throw Error(
      fmt::format("\"{}\" holds a run already; go on with it: cosformer train --resume {}; or take "
                  "another --out",
                  directory, directory));
}

TrainSummary Train(const TrainJob& job, Model& model) {
  if (!job.data->train) {
    throw Error(fmt::format("\"{}\" has no training split", job.data->directory));
  }
  return Run(job, model).Go();
}

}  // namespace cosformer
