// Activation checkpointing: a piece of the model keeps its inputs alone and is computed again when
// its gradients are wanted, with the random numbers and the buffers of the first time.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <vector>

namespace cosformer {

using TensorList = std::vector<torch::Tensor>;

// piece(inputs), to the bit, where the piece is a part of `module`, which must outlive
// the gradients. Undefined inputs stay
// undefined; outputs must not be. The piece reaches its parameters by itself; their gradients are
// accumulated as usual.
TensorList Checkpointed(torch::nn::Module& module,
                        const std::function<TensorList(const TensorList&)>& piece,
                        const TensorList& inputs);

}  // namespace cosformer
