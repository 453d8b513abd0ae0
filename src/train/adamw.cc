#include "train/adamw.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "cosformer/error.h"
#include "kernels/adamw.h"

namespace cosformer {

using torch::Tensor;

std::vector<ParameterGroup> GroupsOf(const torch::nn::Module& module) {
  ParameterGroup matrices, others;
  others.decay = false;
  for (const auto& item : module.named_parameters()) {
    const std::string name = item.key().substr(item.key().rfind('.') + 1);
    const bool matrix =
        name.ends_with("weight") || name.ends_with("projection") || name == "tokens";
    (matrix && item.value().dim() > 1 ? matrices : others).parameters.push_back(item.value());
  }
  return {matrices, others};
}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options) : options_(options) {
  for (const ParameterGroup& group : groups) {
    for (const Tensor& parameter : group.parameters) {
      if (parameter.scalar_type() != torch::kFloat32 || !parameter.is_contiguous()) {
        throw Error("optimiser: parameters must be float32 and contiguous");
      }
      slots_.push_back({parameter, {}, group.lr_scale, group.decay});
    }
  }
}

double AdamW::ClipGradients(double limit) {
  double sum = 0;
  for (const Slot& slot : slots_) {
    const Tensor gradient = slot.parameter.grad();
    if (!gradient.defined()) continue;
    sum += SumOfSquares(gradient.contiguous().data_ptr<float>(), gradient.numel(),
                        at::get_num_threads());
  }
  const double length = std::sqrt(sum);
  gradient_scale_ = limit > 0 && length > limit ? limit / length : 1;
  return length;
}

void AdamW::Step(double lr) {
  torch::NoGradGuard no_grad;
  ++steps_;
  for (Slot& slot : slots_) {
    const Tensor gradient = slot.parameter.grad();
    if (!gradient.defined()) continue;
    if (!slot.moments.mean.defined()) {
      slot.moments.mean = torch::zeros_like(slot.parameter);
      slot.moments.square = torch::zeros_like(slot.parameter);
    }
    const Tensor dense = gradient.contiguous();
    AdamWStep step;
    step.lr = lr * slot.lr_scale;
    step.beta1 = options_.beta1;
    step.beta2 = options_.beta2;
    step.epsilon = options_.epsilon;
    step.weight_decay = slot.decay ? options_.weight_decay : 0;
    step.step = steps_;
    step.gradient_scale = gradient_scale_;
    AdamWUpdate(slot.parameter.data_ptr<float>(), dense.data_ptr<float>(),
                slot.moments.mean.data_ptr<float>(), slot.moments.square.data_ptr<float>(),
                slot.parameter.numel(), step, at::get_num_threads());
    slot.parameter.unsafeGetTensorImpl()->bump_version();
  }
  gradient_scale_ = 1;
}

void AdamW::ZeroGradients() {
  for (Slot& slot : slots_) slot.parameter.mutable_grad() = Tensor();
}

std::vector<AdamW::Moments> AdamW::moments() const {
  std::vector<Moments> all;
  for (const Slot& slot : slots_) all.push_back(slot.moments);
  return all;
}

void AdamW::Restore(int64_t steps, const std::vector<Moments>& moments) {
  const auto fits = [](const Slot& slot, const Tensor& moment) {
    return !moment.defined() || (moment.sizes() == slot.parameter.sizes() &&
                                 moment.scalar_type() == torch::kFloat32 && moment.is_contiguous());
  };
  bool all_fit = moments.size() == slots_.size();
  for (size_t i = 0; all_fit && i < slots_.size(); ++i) {
    all_fit = fits(slots_[i], moments[i].mean) && fits(slots_[i], moments[i].square) &&
              moments[i].mean.defined() == moments[i].square.defined();
  }
  if (!all_fit) throw Error("optimiser: its state is of other parameters than these");
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].moments = moments[i];
  steps_ = steps;
}

}  // namespace cosformer
