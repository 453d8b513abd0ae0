// The kernels of src/kernels as differentiable functions of tensors: normalisation with the
// residual sum before it, activation with the bias before it, dropout without a mask.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "kernels/activate.h"
#include "kernels/normalise.h"

namespace cosformer {

// s = x + Dropout(r) and its normalisation.
//   x, r [..., width]; r undefined: s is x
//   weight [width]; bias [width], or undefined
struct SumAndNorm {
  torch::Tensor sum;
  torch::Tensor norm;
};
SumAndNorm AddAndNormalise(const torch::Tensor& x, const torch::Tensor& r,
                           const torch::Tensor& weight, const torch::Tensor& bias, NormKind kind,
                           float epsilon, float dropout);

// act(pre + bias): pre [..., PreWidth(kind, hidden)] -> [..., hidden]; bias may be undefined.
torch::Tensor Activate(Activation kind, const torch::Tensor& pre, const torch::Tensor& bias);

torch::Tensor DropOut(const torch::Tensor& x, float p);

// The next 64 random bits of torch's generator: what is drawn here is repeated by a run that is
// resumed with the generator's state.
uint64_t DrawSeed();

}  // namespace cosformer
