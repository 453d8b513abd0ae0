// The activation between the two matrix products of a feed-forward layer, fused with the bias of
// the first. The number of threads (0: as many as OpenMP gives) does not change a bit of the
// result.
#pragma once

#include <cstdint>

namespace cosformer {

enum class Activation {
  kGelu,    // x Phi(x), with the exact normal distribution, not its tanh approximation
  kRelu,    // max(x, 0); the derivative at 0 is 0
  kSwiglu,  // silu(gate) * up, where a row of pre is [gate | up]
};

// Columns of `pre` (and of its bias) for `hidden` columns of the result.
constexpr int64_t PreWidth(Activation kind, int64_t hidden) {
  return kind == Activation::kSwiglu ? 2 * hidden : hidden;
}

// y = act(pre + bias).
//   pre   [rows, PreWidth]
//   bias  [PreWidth], or null
//   y     [rows, hidden]; may be pre with the same stride, except for kSwiglu
// Strides are from row to row; 0: rows are contiguous.
struct ActivateStrides {
  int64_t pre = 0;
  int64_t y = 0;
};
void ActivateForward(Activation kind, const float* pre, const float* bias, int64_t rows,
                     int64_t hidden, float* y, int threads = 0, ActivateStrides strides = {});

// dpre = dy * act'(pre + bias), dbias = its column sums. Rows are contiguous.
//   dy     [rows, hidden]
//   dpre   [rows, PreWidth]; may be pre; may be dy, except for kSwiglu
//   dbias  [PreWidth], or null
void ActivateBackward(Activation kind, const float* dy, const float* pre, const float* bias,
                      int64_t rows, int64_t hidden, float* dpre, float* dbias, int threads = 0);

}  // namespace cosformer
