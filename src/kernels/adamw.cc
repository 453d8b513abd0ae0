// AdamW and sums of squares over blocks of a flat array, compiled once an instruction set.

#include "kernels/adamw.h"

#include <cassert>
#include <cmath>
#include <vector>

#include "kernels/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

void RunAdamW(float* p, const float* g, float* m, float* v, int64_t begin, int64_t end,
              const AdamWStep& step) {
  const DF df;
  const double steps = static_cast<double>(step.step);
  const auto rounded = [&](double x) HWY_ATTR { return hn::Set(df, static_cast<float>(x)); };
  const VF decay = rounded(1 - step.lr * step.weight_decay);
  const VF beta1 = rounded(step.beta1);
  const VF beta2 = rounded(step.beta2);
  const VF gradient = rounded((1 - step.beta1) * step.gradient_scale);
  // Squared together with the gradient.
  const VF square = rounded(std::sqrt(1 - step.beta2) * step.gradient_scale);
  const VF correction = rounded(1 / std::sqrt(1 - std::pow(step.beta2, steps)));
  const VF epsilon = rounded(step.epsilon);
  const VF rate = rounded(step.lr / (1 - std::pow(step.beta1, steps)));
  ForVectors(static_cast<size_t>(end - begin), [&](size_t c, auto some) HWY_ATTR {
    const int64_t i = begin + static_cast<int64_t>(c);
    const VF d = LoadSome(g + i, some);
    const VF root = hn::Mul(d, square);
    const VF first = hn::MulAdd(LoadSome(m + i, some), beta1, hn::Mul(d, gradient));
    const VF second = hn::MulAdd(root, root, hn::Mul(LoadSome(v + i, some), beta2));
    const VF denominator = hn::MulAdd(hn::Sqrt(second), correction, epsilon);
    const VF update = hn::Div(hn::Mul(first, rate), denominator);
    StoreSome(first, m + i, some);
    StoreSome(second, v + i, some);
    StoreSome(hn::MulSub(LoadSome(p + i, some), decay, update), p + i, some);
  });
}

double RunSumOfSquares(const float* x, int64_t begin, int64_t end) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(dd));
  auto even = hn::Zero(dd);
  auto odd = hn::Zero(dd);
  int64_t i = begin;
  for (; i + 2 * lanes <= end; i += 2 * lanes) {
    const auto a = hn::PromoteTo(dd, hn::LoadU(df, x + i));
    const auto b = hn::PromoteTo(dd, hn::LoadU(df, x + i + lanes));
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(dd, hn::Add(even, odd)));
  for (; i < end; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunAdamW);
HWY_EXPORT(RunSumOfSquares);

void AdamWUpdate(float* p, const float* g, float* m, float* v, int64_t n, const AdamWStep& step,
                 int threads) {
  assert(n >= 0 && step.step >= 1);
  ForBlocks(n, kFlatBlock, n * 28, threads, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(RunAdamW)(p, g, m, v, begin, end, step);
  });
}

double SumOfSquares(const float* x, int64_t n, int threads) {
  assert(n >= 0);
  std::vector<double> partial(static_cast<size_t>(BlocksOf(n, kFlatBlock)));
  ForBlocks(n, kFlatBlock, n * 4, threads, [&](int64_t begin, int64_t end) {
    partial[static_cast<size_t>(begin / kFlatBlock)] =
        HWY_DYNAMIC_DISPATCH(RunSumOfSquares)(x, begin, end);
  });
  double sum = 0;
  for (const double s : partial) sum += s;
  return sum;
}

}  // namespace cosformer
#endif  // HWY_ONCE
