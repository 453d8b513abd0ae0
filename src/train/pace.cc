#include "train/pace.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "train/objective.h"
#include "train/training_state.h"

namespace cosformer {
namespace {

constexpr int kPasses = 4;

// Of one call on each of some batches; a first one touches memory for all the others.
template <class Compute>
double SecondsOf(const data::Batches& batches, const data::Batches::Plan& plan,
                 const Compute& compute) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  for (int pass = 0; pass <= kPasses; ++pass) {
    const data::Batch batch = batches.Make(plan, pass % plan.batches());
    if (pass == 1) begin = Clock::now();
    compute(batch);
  }
  return std::chrono::duration<double>(Clock::now() - begin).count() / kPasses;
}

}  // namespace

Pace MeasurePace(ModelImpl& model, const data::Batches& batches, data::Objective objective) {
  const torch::Tensor random = TorchRandomState();
  std::vector<torch::Tensor> buffers;
  for (const torch::Tensor& buffer : model.buffers()) buffers.push_back(buffer.clone());
  const data::Batches::Plan plan = batches.PlanOf(0);
  int64_t tokens = 0;
  for (int pass = 1; pass <= kPasses; ++pass) {
    tokens += batches.Make(plan, pass % plan.batches()).Tokens();
  }

  Pace pace;
  model.train();
  pace.pass_seconds = SecondsOf(batches, plan, [&](const data::Batch& batch) {
    TrainingLoss(model, batch, objective, 0).loss.backward();
  });
  model.eval();
  pace.evaluation_seconds =
      kPasses *
      SecondsOf(batches, plan,
                [&](const data::Batch& batch) { EvaluationLoss(model, batch, objective); }) /
      static_cast<double>(std::max<int64_t>(1, tokens));
  model.train();

  for (torch::Tensor& parameter : model.parameters()) parameter.mutable_grad() = torch::Tensor();
  torch::NoGradGuard no_grad;
  size_t index = 0;
  for (torch::Tensor& buffer : model.buffers()) buffer.copy_(buffers[index++]);
  SetTorchRandomState(random);
  return pace;
}

}  // namespace cosformer
