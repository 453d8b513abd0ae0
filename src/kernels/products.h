// Products of rows with a matrix of weights of any type, y = x W^T + bias: what a trained model
// does with nearly all of its time.
//
// Every dot product is summed in one order, whatever the number of rows or of threads: a token's
// results are the same to the bit alone, in a batch, or in a prompt.
#pragma once

#include <cstdint>

#include "kernels/weights.h"

namespace cosformer {

// y = x W^T + bias.
//   x     [rows, columns of W], rows x_stride floats apart
//   bias  [rows of W], or null
//   y     [rows, rows of W], rows y_stride floats apart; must not overlap x
// threads: 0 for as many as OpenMP gives.
void Multiply(const float* x, int64_t x_stride, int64_t rows, const Weights& weights,
              const float* bias, float* y, int64_t y_stride, int threads = 0);

}  // namespace cosformer
