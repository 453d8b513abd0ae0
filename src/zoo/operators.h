// The kernels of src/attention as differentiable functions of tensors; those of the public header
// and these.
#pragma once

#include <memory>
#include <vector>

#include "attention/pattern.h"
#include "cosformer/torch.h"

namespace cosformer::zoo {

// Softmax attention over listed pairs (attention/pattern.h). patterns: one, one a batch entry, or
// one a batch entry and query head. scale 0: 1 / sqrt(dim).
using SharedPattern = std::shared_ptr<const AttentionPattern>;
torch::Tensor PatternAttention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, std::vector<SharedPattern> patterns,
                               float scale = 0);

// In the backward pass of functions whose gradients are kernels, and can't be differentiated again:
// throws where that is asked for (create_graph), rather than return a wrong second derivative.
void RequireFirstDerivative();

// Views of [batch, length, heads, dim] for the kernels; the last stride must be 1.
ConstView ViewOf(const torch::Tensor& tensor);
View MutableViewOf(torch::Tensor& tensor);

}  // namespace cosformer::zoo
