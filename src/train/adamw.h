// AdamW over groups of parameters: one pass over each parameter, its gradient and its two moments.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cosformer {

struct AdamWOptions {
  double lr = 5e-4;
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

// Parameters that are updated alike, but for these.
struct ParameterGroup {
  std::vector<torch::Tensor> parameters;  // float32, contiguous
  double lr_scale = 1;
  bool decay = true;
};

// The matrices of products and embeddings decay. What is a scale, an offset, a place or a frequency
// (biases, gains, positions) does not: zero means nothing to it.
std::vector<ParameterGroup> GroupsOf(const torch::nn::Module& module);

class AdamW {
 public:
  AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options);

  // The length of all gradients as one vector; those longer than `limit` are made shorter by the
  // next Step (limit 0: never).
  double ClipGradients(double limit);
  // Parameters without a gradient stay as they are.
  void Step(double lr);
  void Step() { Step(options_.lr); }
  void ZeroGradients();

  int64_t steps() const { return steps_; }

  // What it remembers of the gradients, a parameter in the order of the groups; undefined before
  // the first gradient.
  struct Moments {
    torch::Tensor mean, square;
  };
  std::vector<Moments> moments() const;
  // Goes on from there. Throws Error when they are not of these parameters.
  void Restore(int64_t steps, const std::vector<Moments>& moments);

 private:
  struct Slot {
    torch::Tensor parameter;
    Moments moments;
    double lr_scale;
    bool decay;
  };
  AdamWOptions options_;
  std::vector<Slot> slots_;
  int64_t steps_ = 0;
  double gradient_scale_ = 1;
};

}  // namespace cosformer
