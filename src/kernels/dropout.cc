// Dropout of a flat array, compiled once an instruction set.

#include "kernels/dropout.h"

#include <cassert>

#include "kernels/blocks.h"
#include "kernels/dropout_hash.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "kernels/dropout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

void RunDropout(const float* x, int64_t begin, int64_t end, const Dropout& dropout, float* y) {
  DropoutVectors vectors(dropout);
  ForVectors(static_cast<size_t>(end - begin), [&](size_t c, auto some) HWY_ATTR {
    const int64_t i = begin + static_cast<int64_t>(c);
    StoreSome(vectors.Apply(LoadSome(x + i, some), i), y + i, some);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunDropout);

bool DropoutKeeps(const Dropout& dropout, int64_t index) {
  index += dropout.first;
  const DropoutKeys keys(dropout.seed, index >> 32);
  return DropoutHash(keys, static_cast<uint32_t>(index)) >= DropoutThreshold(dropout);
}

void DropoutForward(const float* x, int64_t n, const Dropout& dropout, float* y, int threads) {
  assert(n >= 0 && dropout.first >= 0);
  ForBlocks(n, kFlatBlock, n * 8, threads, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(RunDropout)(x, begin, end, dropout, y);
  });
}

}  // namespace cosformer
#endif  // HWY_ONCE
