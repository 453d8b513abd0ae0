// Cross-entropy of single rows, compiled once an instruction set.

#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// Sums run over so many classes in float, then go on in double: 64 additions a lane at most.
constexpr int64_t kRun = 1024;

template <class Body>
HWY_INLINE void ForRuns(int64_t classes, const Body& body) {
  for (int64_t begin = 0; begin < classes; begin += kRun) {
    body(begin, static_cast<size_t>(std::min(kRun, classes - begin)));
  }
}

struct Largest {
  float value;
  int64_t run;  // where the first run begins that has it
};

HWY_INLINE Largest FindLargest(const float* row, int64_t classes) {
  const DF df;
  const VF lowest = hn::Set(df, -std::numeric_limits<float>::infinity());
  Largest largest = {-std::numeric_limits<float>::infinity(), 0};
  ForRuns(classes, [&](int64_t begin, size_t count) HWY_ATTR {
    VF top[kSums] = {lowest, lowest, lowest, lowest};
    ForSums(count, [&](size_t c, auto some, auto k) HWY_ATTR {
      top[k] = hn::Max(OrElse(LoadSome(row + begin + c, some), lowest, some), top[k]);
    });
    const VF most = hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3]));
    const float value = hn::GetLane(hn::MaxOfLanes(df, most));
    if (value > largest.value) largest = {value, begin};
  });
  return largest;
}

// With one exponential an element: kept in the row where the gradient needs it.
template <bool kKeep>
HWY_INLINE double SumOfExponentials(float* row, int64_t classes, float largest) {
  const VF shift = hn::Set(DF(), largest);
  double total = 0;
  ForRuns(classes, [&](int64_t begin, size_t count) HWY_ATTR {
    float* from = row + begin;
    Sums sums;
    ForSums(count, [&](size_t c, auto some, auto k) HWY_ATTR {
      const VF e = ExpOrZero(hn::Sub(LoadSome(from + c, some), shift));
      if (kKeep) StoreSome(e, from + c, some);
      sums.sum[k] = hn::Add(sums.sum[k], OrZero(e, some));
    });
    total += sums.Total();
  });
  return total;
}

HWY_INLINE double SumOfDistances(const float* row, int64_t classes, float largest) {
  const VF shift = hn::Set(DF(), largest);
  double total = 0;
  ForRuns(classes, [&](int64_t begin, size_t count) HWY_ATTR {
    Sums sums;
    ForSums(count, [&](size_t c, auto some, auto k) HWY_ATTR {
      const VF distance = hn::Sub(LoadSome(row + begin + c, some), shift);
      sums.sum[k] = hn::Add(sums.sum[k], OrZero(distance, some));
    });
    total += sums.Total();
  });
  return total;
}

// row = row * factor - offset.
HWY_INLINE void ScaleRow(float* row, int64_t classes, float factor, float offset) {
  const VF f = hn::Set(DF(), factor);
  const VF o = hn::Set(DF(), offset);
  ForVectors(static_cast<size_t>(classes), [&](size_t c, auto some) HWY_ATTR {
    StoreSome(hn::MulSub(LoadSome(row + c, some), f, o), row + c, some);
  });
}

float RunCrossEntropy(float* row, int64_t classes, int64_t target, float smoothing, float scale,
                      bool gradient, int64_t* argmax) {
  const bool ignored = target == kIgnoredTarget;
  if (!ignored || argmax != nullptr) {
    const Largest largest = FindLargest(row, classes);
    if (argmax != nullptr) {
      const float* begin = row + largest.run;
      const float* end = row + std::min(classes, largest.run + kRun);
      const float* found = std::find(begin, end, largest.value);
      *argmax = found == end ? largest.run : found - row;  // not found: the row is all NaN
    }
    if (!ignored) {
      const double target_distance = static_cast<double>(row[target]) - largest.value;
      const double mean_distance =
          smoothing == 0 ? 0.0 : SumOfDistances(row, classes, largest.value) / classes;
      const double sum = gradient ? SumOfExponentials<true>(row, classes, largest.value)
                                  : SumOfExponentials<false>(row, classes, largest.value);
      const double log_sum = std::log(sum);
      if (gradient) {
        const double others = static_cast<double>(scale) * smoothing / classes;
        ScaleRow(row, classes, static_cast<float>(scale / sum), static_cast<float>(others));
        row[target] -= scale * (1 - smoothing);
      }
      double loss = (1.0 - smoothing) * (log_sum - target_distance);
      if (smoothing != 0) loss += smoothing * (log_sum - mean_distance);
      return static_cast<float>(loss);
    }
  }
  if (gradient) std::fill_n(row, classes, 0.0f);
  return 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunCrossEntropy);

void CrossEntropyRows(float* logits, int64_t rows, int64_t classes, int64_t stride,
                      const int64_t* targets, float smoothing, float scale, bool gradient,
                      float* losses, int64_t* argmax, int threads) {
  assert(rows >= 0 && classes >= 1 && stride >= classes);
  const int64_t bytes = rows * classes * (gradient ? 8 : 4);
  ForBlocks(rows, RowsPerBlock(classes), bytes, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      assert(targets[i] == kIgnoredTarget || (targets[i] >= 0 && targets[i] < classes));
      losses[i] = HWY_DYNAMIC_DISPATCH(RunCrossEntropy)(logits + i * stride, classes, targets[i],
                                                        smoothing, scale, gradient,
                                                        argmax == nullptr ? nullptr : argmax + i);
    }
  });
}

}  // namespace cosformer
#endif  // HWY_ONCE
