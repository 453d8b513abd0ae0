// Random features of queries and keys, and how their projections are drawn: what the Performer and
// Random Feature Attention are made of.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace cosformer::zoo {

enum class RandomFeature : uint8_t {
  // exp(w . x - |x|^2 / 2 - shift), x scaled by dim^(-1/4). Products estimate exp(q . k /
  // sqrt(dim)), and are positive (Choromanski et al. 2021).
  kPositiveQuery,  // shift: the row's own maximum, which its normaliser cancels; no gradient
  kPositiveKey,    // shift: dim / 4, a constant, so that no key depends on another
  // sin(w . x) and cos(w . x) over sqrt(D), x scaled to unit length: exp(-|w (q - k)|^2 / 2) for
  // Gaussian w (Peng et al. 2021). Twice as many features as rows of w.
  kSineCosine,
  // max(w . x, 0) over sqrt(D), x scaled to unit length: the arc-cosine kernel of the first order.
  kArcCosine,
};

// Unit length is x / sqrt(|x|^2 + this): a gradient at x = 0 stays finite.
inline constexpr double kUnitLengthEpsilon = 1e-8;

// x [batch, n, heads, dim], any strides; w [groups, D, dim]: query head h uses w[h / (heads /
// groups)]. -> [batch, n, heads, D or 2 D].
// Differentiable in x, and in w except for the positive features. What is kept for the backward
// pass are x, w and the result.
torch::Tensor RandomFeatures(const torch::Tensor& x, const torch::Tensor& w, RandomFeature kind);

// [rows, dim] from torch's generator. Orthogonal: in blocks of dim rows that are at right angles,
// with lengths as those of Gaussian rows, or all sqrt(dim).
torch::Tensor DrawGaussian(int64_t rows, int64_t dim);
torch::Tensor DrawOrthogonal(int64_t rows, int64_t dim, bool equal_lengths);

}  // namespace cosformer::zoo
