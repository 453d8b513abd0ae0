// One step of AdamW over a flat array of parameters, and the norm that clipping needs. The number
// of threads (0: as many as OpenMP gives) does not change a bit of the result.
#pragma once

#include <cstdint>

namespace cosformer {

// In double: 1 - 0.999f is off by 1.3e-5 of itself.
struct AdamWStep {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // decoupled: p *= 1 - lr * weight_decay
  int64_t step = 1;            // 1 at the first update
  double gradient_scale = 1;   // multiplies the gradient first: clipping, loss scaling
};

// With g the scaled gradient and t the step:
//   p *= 1 - lr * weight_decay
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
void AdamWUpdate(float* p, const float* g, float* m, float* v, int64_t n, const AdamWStep& step,
                 int threads = 0);

// The sum of x[i]^2, summed in double.
double SumOfSquares(const float* x, int64_t n, int threads = 0);

}  // namespace cosformer
