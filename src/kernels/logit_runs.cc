// Runs of logits, compiled once an instruction set.

#include "kernels/logit_runs.h"

#include <algorithm>
#include <cassert>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/logit_runs.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

HWY_INLINE float LargestOf(const float* run, size_t count) {
  const VF lowest = hn::Set(DF(), kNothing);
  VF top[kSums] = {lowest, lowest, lowest, lowest};
  ForSums(count, [&](size_t c, auto some, auto k) HWY_ATTR {
    top[k] = hn::Max(OrElse(LoadSome(run + c, some), lowest, some), top[k]);
  });
  const VF most = hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3]));
  // The emulated target's MaxOfLanes begins at the lowest finite number.
  if (hn::AllTrue(DF(), hn::Eq(most, lowest))) return kNothing;
  return hn::GetLane(hn::MaxOfLanes(DF(), most));
}

HWY_INLINE float SumOf(const float* run, size_t count, float scale, float largest) {
  if (largest == kNothing) {
    // The difference to it is no number; and the largest of NaN and -infinity may be either.
    const bool nothing = std::all_of(run, run + count, [](float x) { return x == kNothing; });
    return nothing ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  const VF shift = hn::Set(DF(), largest);
  const VF factor = hn::Set(DF(), scale);
  Sums sums;
  ForSums(count, [&](size_t c, auto some, auto k) HWY_ATTR {
    const VF e = ExpOrZero(hn::Mul(hn::Sub(LoadSome(run + c, some), shift), factor));
    sums.sum[k] = hn::Add(sums.sum[k], OrZero(e, some));
  });
  return sums.Total();
}

void RunScanLogitRuns(const float* logits, int64_t n, float scale, float* largest, float* sums) {
  for (int64_t run = 0; run < RunsOf(n); ++run) {
    const float* from = logits + run * kLogitRun;
    const auto count = static_cast<size_t>(std::min(kLogitRun, n - run * kLogitRun));
    largest[run] = LargestOf(from, count);
    if (sums != nullptr) sums[run] = SumOf(from, count, scale, largest[run]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunScanLogitRuns);

void ScanLogitRuns(const float* logits, int64_t n, float scale, float* largest, float* sums) {
  assert(n >= 0 && scale > 0);
  HWY_DYNAMIC_DISPATCH(RunScanLogitRuns)(logits, n, scale, largest, sums);
}

}  // namespace cosformer
#endif  // HWY_ONCE
