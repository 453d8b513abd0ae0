// Softmax cross-entropy of rows of logits, and its gradient in place of the logits: one exponential
// an element. The number of threads (0: as many as OpenMP gives) does not change a bit of the
// result.
#pragma once

#include <cstdint>

namespace cosformer {

// The target of a row that does not count: loss 0, gradient 0.
constexpr int64_t kIgnoredTarget = -1;

// losses[i] = -(1 - smoothing) log p_target - smoothing / classes * sum_c log p_c.
//   logits   [rows, classes], rows `stride` apart; with `gradient`, replaced by
//            scale * (p - smoothed one-hot), else left as they are
//   targets  [rows], in [0, classes) or kIgnoredTarget
//   losses   [rows]
//   argmax   [rows], or null: the first class with the largest logit, of ignored rows as well
void CrossEntropyRows(float* logits, int64_t rows, int64_t classes, int64_t stride,
                      const int64_t* targets, float smoothing, float scale, bool gradient,
                      float* losses, int64_t* argmax = nullptr, int threads = 0);

}  // namespace cosformer
