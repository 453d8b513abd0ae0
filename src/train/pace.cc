#include "train/pace.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "report/clock.h"
#include "train/adamw.h"
#include "train/objective.h"
#include "train/training_state.h"

namespace cosformer {
namespace {

constexpr int kPasses = 4;

// Puts back what passes change, the gradients apart, which are then gone.
class LeaveNoTrace {
 public:
  explicit LeaveNoTrace(ModelImpl& model) : model_(model), random_(TorchRandomState()) {
    for (const torch::Tensor& buffer : model.buffers()) buffers_.push_back(buffer.clone());
  }
  ~LeaveNoTrace() {
    for (torch::Tensor& parameter : model_.parameters()) parameter.mutable_grad() = torch::Tensor();
    const torch::NoGradGuard no_grad;
    size_t index = 0;
    for (torch::Tensor& buffer : model_.buffers()) buffer.copy_(buffers_[index++]);
    SetTorchRandomState(random_);
    model_.train();
  }
  LeaveNoTrace(const LeaveNoTrace&) = delete;
  LeaveNoTrace& operator=(const LeaveNoTrace&) = delete;

 private:
  ModelImpl& model_;
  torch::Tensor random_;
  std::vector<torch::Tensor> buffers_;
};

struct Measured {
  int calls = 0;
  double seconds = 0;
  double tokens = 0;
};

// Of one call on each of some batches, fewer if they take longer than `most`. A first one touches
// memory for all the others, and counts only where it takes as long by itself.
template <class Compute>
Measured Measure(const data::Batches& batches, const data::Batches::Plan& plan, double most,
                 const Compute& compute) {
  Measured measured;
  for (int pass = 0; pass <= kPasses; ++pass) {
    const data::Batch batch = batches.Make(plan, pass % plan.batches());
    const report::Clock::time_point begin = report::Clock::now();
    compute(batch);
    const double seconds = report::SecondsSince(begin);
    if (pass == 0 && seconds < most) continue;
    measured.seconds += seconds;
    measured.tokens += static_cast<double>(batch.Tokens());
    ++measured.calls;
    if (measured.seconds > most) break;
  }
  return measured;
}

}  // namespace

Pace MeasurePace(ModelImpl& model, const data::Batches& batches, data::Objective objective,
                 double seconds) {
  const LeaveNoTrace no_trace(model);
  const data::Batches::Plan plan = batches.PlanOf(0);

  Pace pace;
  model.train();
  const Measured passes = Measure(batches, plan, 0.7 * seconds, [&](const data::Batch& batch) {
    TrainingLoss(model, batch, objective, 0).loss.backward();
  });
  pace.pass_seconds = passes.seconds / passes.calls;
  {
    AdamW optimiser(GroupsOf(model), {});
    const auto update = [&] {
      const report::Clock::time_point begin = report::Clock::now();
      optimiser.ClipGradients(1);
      optimiser.Step(0);  // the weights stay
      return report::SecondsSince(begin);
    };
    update();  // makes the moments
    pace.update_seconds = update();
  }
  model.eval();
  const Measured evaluation = Measure(batches, plan, 0.3 * seconds, [&](const data::Batch& batch) {
    EvaluationLoss(model, batch, objective);
  });
  pace.evaluation_seconds = evaluation.seconds / std::max(1.0, evaluation.tokens);
  return pace;
}

int FasterThreads(ModelImpl& model, const data::Batches& batches, data::Objective objective) {
  // Passes that take longer are large enough to be shared out in any case.
  constexpr double kLongPass = 0.5;
  constexpr double kEnough = 0.5, kLongest = 2;
  constexpr double kClearly = 1.05;
  const int all = at::get_num_threads();
  if (all == 1) return all;
  const LeaveNoTrace no_trace(model);
  const data::Batch batch = batches.Make(batches.PlanOf(0), 0);
  model.train();
  const auto seconds_with = [&](int threads) {
    at::set_num_threads(threads);
    const report::Clock::time_point begin = report::Clock::now();
    TrainingLoss(model, batch, objective, 0).loss.backward();
    return report::SecondsSince(begin);
  };
  double together = 0, alone = 0;
  if (seconds_with(all) < kLongPass) {  // the first touches memory for all others
    for (int round = 0; round < 3 || together + alone < kEnough; ++round) {
      together += seconds_with(all);
      alone += seconds_with(1);
      if (alone > 2 * together || together + alone > kLongest) break;
    }
  }
  const int faster = kClearly * alone < together ? 1 : all;
  at::set_num_threads(faster);
  return faster;
}

}  // namespace cosformer
