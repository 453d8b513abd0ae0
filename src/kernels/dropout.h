// Dropout without a mask: whether an element is kept is a hash of the seed and the element's index,
// so the backward pass recomputes what the forward pass decided. The same elements are kept on
// every instruction set and with any number of threads.
#pragma once

#include <cstdint>

namespace cosformer {

struct Dropout {
  float p = 0;        // probability that an element becomes 0, in [0, 1)
  uint64_t seed = 0;  // any value; neighbouring seeds give independent masks
  // Index of the first element within what the seed was drawn for, below 2^40: a part of a tensor
  // is dropped as it would be with the whole.
  int64_t first = 0;
};

// Whether element `index` is kept: the definition, one element at a time.
bool DropoutKeeps(const Dropout& dropout, int64_t index);

// y[i] = x[i] / (1 - p) where element i is kept, 0 elsewhere (whatever x[i] is). The backward pass
// is the same call on the gradient. y may be x.
void DropoutForward(const float* x, int64_t n, const Dropout& dropout, float* y, int threads = 0);

}  // namespace cosformer
