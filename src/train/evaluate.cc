#include "train/evaluate.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "report/clock.h"
#include "train/objective.h"

namespace cosformer {
namespace {

// Evaluates in the block's scope, and leaves the model as it was.
class EvaluationMode {
 public:
  explicit EvaluationMode(ModelImpl& model) : model_(model), training_(model.is_training()) {
    model_.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() { model_.train(training_); }

 private:
  ModelImpl& model_;
  bool training_;
};

void Add(const LossResult& result, Evaluation& evaluation) {
  if (result.counted == 0) return;
  const auto count = static_cast<double>(result.counted);
  evaluation.losses.push_back(result.loss.item<double>() * count);
  evaluation.counts.push_back(count);
  evaluation.correct = std::max<int64_t>(0, evaluation.correct) + result.correct;
}

// What a window predicts, or what of it lies in one stretch of the text.
struct WindowRun {
  TargetRun targets;
  int64_t place = 0;  // in the text: of the token before the first
};

// Of all windows of a batch; whole where `stretch` is 0.
std::vector<WindowRun> RunsOf(const data::Batches& batches, const data::Batches::Plan& plan,
                              int64_t index, const data::Batch& batch, int64_t stretch) {
  std::vector<WindowRun> runs;
  const int64_t length = batch.input.length;
  for (int64_t row = 0; row < batch.input.rows; ++row) {
    const int64_t window =
        plan.items[static_cast<size_t>(plan.begins[static_cast<size_t>(index)] + row)];
    const int64_t place = batches.WindowBegin(plan, window);
    int64_t at = 0;
    while (at < length && batch.targets[static_cast<size_t>(row * length + at)] < 0) ++at;
    while (at < length) {
      const int64_t left = stretch > 0 ? stretch - (place + at) % stretch : length;
      const int64_t count = std::min(length - at, left);
      runs.push_back({{row * length + at, count}, place + at});
      at += count;
    }
  }
  return runs;
}

void AddPredicted(const std::vector<WindowRun>& runs, std::vector<TokenRange>& predicted) {
  for (const WindowRun& run : runs) {
    const int64_t begin = run.place + 1, end = begin + run.targets.count;
    if (!predicted.empty() && predicted.back().end == begin) {
      predicted.back().end = end;
    } else {
      predicted.push_back({begin, end});
    }
  }
}

void AddStretches(ModelImpl& model, const data::Batch& batch, const std::vector<WindowRun>& runs,
                  int64_t stretch, Evaluation& evaluation) {
  std::vector<TargetRun> targets;
  for (const WindowRun& run : runs) targets.push_back(run.targets);
  const std::vector<LossResult> losses = EvaluationLosses(model, batch, targets);
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto block = static_cast<size_t>(runs[i].place / stretch);
    const auto count = static_cast<double>(losses[i].counted);
    evaluation.losses[block] += losses[i].loss.item<double>() * count;
    evaluation.counts[block] += count;
    evaluation.correct = std::max<int64_t>(0, evaluation.correct) + losses[i].correct;
  }
}

}  // namespace

double Evaluation::LossSum() const { return std::accumulate(losses.begin(), losses.end(), 0.0); }

int64_t Evaluation::Predictions() const {
  return static_cast<int64_t>(std::accumulate(counts.begin(), counts.end(), 0.0));
}

double Evaluation::Loss() const {
  return LossSum() / std::max(1.0, static_cast<double>(Predictions()));
}

Evaluation Evaluate(ModelImpl& model, const data::Dataset& set, data::BatchOptions options,
                    int64_t tokens, const EvaluationProgress& progress) {
  return EvaluateStretches(model, set, options, tokens, 0, progress);
}

Evaluation EvaluateStretches(ModelImpl& model, const data::Dataset& set, data::BatchOptions options,
                             int64_t tokens, int64_t stretch, const EvaluationProgress& progress) {
  torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  const auto begin = std::chrono::steady_clock::now();
  options.shuffle = false;
  const data::Batches batches(set, options);
  const data::Batches::Plan plan = batches.PlanOf(0);
  int64_t take = plan.batches();
  if (tokens > 0) {
    take = std::clamp<int64_t>((tokens + options.tokens - 1) / options.tokens, 1, take);
  }
  Evaluation evaluation;
  evaluation.part = static_cast<double>(take) / static_cast<double>(plan.batches());
  if (stretch > 0) {
    const auto blocks = static_cast<size_t>((set.tokens() - 2) / stretch + 1);
    evaluation.losses.resize(blocks);
    evaluation.counts.resize(blocks);
  }
  for (int64_t i = 0; i < take; ++i) {
    const int64_t index = i * plan.batches() / take;
    const data::Batch batch = batches.Make(plan, index);
    if (options.objective == data::Objective::kCausal) {
      AddPredicted(RunsOf(batches, plan, index, batch, 0), evaluation.predicted);
    }
    if (stretch > 0) {
      AddStretches(model, batch, RunsOf(batches, plan, index, batch, stretch), stretch, evaluation);
    } else {
      Add(EvaluationLoss(model, batch, options.objective), evaluation);
    }
    if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(take));
  }
  evaluation.seconds = report::SecondsSince(begin);
  return evaluation;
}

Evaluation EvaluateCarried(ModelImpl& model, const data::Dataset& set, int64_t chunk,
                           const EvaluationProgress& progress) {
  torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  const auto begin = std::chrono::steady_clock::now();
  ModelStream stream = model.NewStream(1);
  Evaluation evaluation;
  std::vector<int64_t> numbers(static_cast<size_t>(chunk) + 1);
  for (int64_t place = 0; place + 1 < set.tokens(); place += chunk) {
    const int64_t count = std::min(chunk, set.tokens() - 1 - place);
    set.Copy(place, count + 1, numbers.data());
    const torch::Tensor all = torch::from_blob(numbers.data(), {1, count + 1}, torch::kInt64);
    const torch::Tensor hidden = model.Step(all.narrow(1, 0, count).contiguous(), stream);
    Add(model.FullCrossEntropy(hidden, all.narrow(1, 1, count).reshape({-1})), evaluation);
    evaluation.predicted = {{1, place + count + 1}};
    if (progress) {
      progress(static_cast<double>(place + count) / static_cast<double>(set.tokens() - 1));
    }
  }
  evaluation.seconds = report::SecondsSince(begin);
  return evaluation;
}

}  // namespace cosformer
