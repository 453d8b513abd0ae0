#include "train/pace.h"

#include <algorithm>
#include <vector>

#include "report/clock.h"
#include "train/adamw.h"
#include "train/objective.h"
#include "train/training_state.h"

namespace cosformer {
namespace {

constexpr int kPasses = 4;

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
  const torch::Tensor random = TorchRandomState();
  std::vector<torch::Tensor> buffers;
  for (const torch::Tensor& buffer : model.buffers()) buffers.push_back(buffer.clone());
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
  model.train();

  for (torch::Tensor& parameter : model.parameters()) parameter.mutable_grad() = torch::Tensor();
  torch::NoGradGuard no_grad;
  size_t index = 0;
  for (torch::Tensor& buffer : model.buffers()) buffer.copy_(buffers[index++]);
  SetTorchRandomState(random);
  return pace;
}

}  // namespace cosformer
