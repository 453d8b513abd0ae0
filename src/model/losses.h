// Losses over a vocabulary that never hold [rows, vocabulary] at once: cross-entropy in slices of
// rows, and the one-vs-each bound from sampled negatives, which holds [rows, negatives].
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace cosformer {

// What a loss returns: the mean over the rows that count, and what is known about them.
struct LossResult {
  torch::Tensor loss;   // a number, differentiable; 0 when no row counts
  int64_t counted = 0;  // rows whose target is not ignored
  int64_t correct = 0;  // of them, those whose largest logit is the target; -1 where not computed
};

// Cross-entropy of softmax(hidden weight^T + bias).
//   hidden [rows, width]   weight [vocabulary, width]   bias [vocabulary], or undefined
//   targets [rows], int64; -1: the row does not count
// The gradients are taken in the forward pass, slice by slice, while the logits are at hand: three
// matrix products a slice, as many as without slices.
LossResult CrossEntropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                        const torch::Tensor& bias, const torch::Tensor& targets,
                        double smoothing = 0);

// The same from logits that exist: classification. logits [rows, classes].
LossResult CrossEntropyOfLogits(const torch::Tensor& logits, const torch::Tensor& targets,
                                double smoothing = 0);

// One-vs-each (Titsias, 2016): -log p(y) <= sum over c != y of log(1 + exp(f_c - f_y)), the sum
// estimated from `negatives` other tokens, drawn uniformly for the whole call: (vocabulary - 1) /
// (sampled other than y) times their sum. With negatives >= vocabulary - 1 all are taken and the
// bound is exact.
LossResult OneVsEach(const torch::Tensor& hidden, const torch::Tensor& weight,
                     const torch::Tensor& bias, const torch::Tensor& targets, int64_t negatives);

}  // namespace cosformer
