// The optimiser's step against its formulas in double.
#include "kernels/adamw.h"

#include "support.h"

namespace cosformer::testing {
namespace {

class AdamWTest : public EveryTarget {};

struct Parameters {
  Parameters(int64_t n, size_t offset)
      : p(Normal(n, 1), offset),
        g(Normal(n, 2, 0.1), offset + 1),
        m(Normal(n, 3, 0.05), offset + 2),
        v(Normal(n, 4, 0.1), offset + 3) {
    for (int64_t i = 0; i < n; ++i) v.data()[i] *= v.data()[i];
  }
  Buffer p;
  Buffer g;
  Buffer m;
  Buffer v;
};

void Check(int64_t n, const AdamWStep& step, size_t offset) {
  const Parameters before(n, offset);
  Parameters after(n, offset);
  AdamWUpdate(after.p.data(), after.g.data(), after.m.data(), after.v.data(), n, step);
  std::vector<Expected> p;
  std::vector<Expected> m;
  std::vector<Expected> v;
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    const double g = before.g[i] * step.gradient_scale;
    const double decayed = before.p[i] * (1 - step.lr * step.weight_decay);
    const double first = step.beta1 * before.m[i] + (1 - step.beta1) * g;
    const double second = step.beta2 * before.v[i] + (1 - step.beta2) * g * g;
    const double denominator = std::sqrt(second) / std::sqrt(correction2) + step.epsilon;
    const double factor = step.lr / correction1 / denominator;
    const double first_error =
        3 * kUnit * (std::abs(step.beta1 * before.m[i]) + std::abs((1 - step.beta1) * g));
    const double update = factor * first;
    m.push_back({first, first_error});
    v.push_back({second, 6 * kUnit * second});
    p.push_back({decayed - update, 3 * kUnit * std::abs(decayed) + factor * first_error +
                                       11 * kUnit * std::abs(update)});
  }
  ExpectClose(after.p.values(), p, "p");
  ExpectClose(after.m.values(), m, "m");
  ExpectClose(after.v.values(), v, "v");
  EXPECT_TRUE(SameBits(after.g.values(), before.g.values()));
}

TEST_P(AdamWTest, AgreesWithTheFormulasAtEveryLength) {
  for (int64_t n = 0; n <= 67; ++n) {
    SCOPED_TRACE(n);
    AdamWStep step;
    step.lr = n % 2 == 0 ? 1e-3 : 0.3;
    step.step = 1 + n * n;
    step.weight_decay = n % 3 == 0 ? 0.0 : 0.1;
    step.gradient_scale = n % 5 == 0 ? 0.125 : 1.0;
    step.epsilon = n % 7 == 0 ? 0.1 : 1e-8;
    Check(n, step, static_cast<size_t>(n) % 6);
  }
  Check(40'001, {}, 1);
}

TEST_P(AdamWTest, TheFirstStepGoesTheLearningRateAgainstTheGradient) {
  std::vector<float> p = {1, 1, 1, 1, 1};
  const std::vector<float> g = {1e-3f, -5, 1e6f, -1e-6f, 0};
  std::vector<float> m(5);
  std::vector<float> v(5);
  AdamWStep step;
  step.lr = 0.25;
  step.weight_decay = 0;
  step.epsilon = 1e-20;
  AdamWUpdate(p.data(), g.data(), m.data(), v.data(), 5, step);
  const std::vector<Expected> expected = {
      {0.75, 1e-6}, {1.25, 1e-6}, {0.75, 1e-6}, {1.25, 1e-6}, {1, 0}};
  ExpectClose(p, expected, "p");
}

TEST_P(AdamWTest, SumOfSquaresAgreesWithDoubles) {
  std::vector<int64_t> lengths = Widths();
  lengths.insert(lengths.end(), {0, 16'383, 16'384, 16'385, 100'003});
  for (const int64_t n : lengths) {
    const std::vector<float> x = Normal(n, 5, 100);
    double sum = 0;
    for (const float v : x) sum += static_cast<double>(v) * v;
    // Squares of floats are exact in double; n of them are added.
    EXPECT_NEAR(SumOfSquares(x.data(), n), sum, 0x1p-53 * static_cast<double>(n + 1) * sum) << n;
  }
}

TEST_P(AdamWTest, SumOfSquaresNeitherOverflowsNorVanishes) {
  const std::vector<float> large(100, 1e30f);
  EXPECT_NEAR(SumOfSquares(large.data(), 100) / 1e62, 1, 1e-6);
  const std::vector<float> small(100, 1e-30f);
  EXPECT_NEAR(SumOfSquares(small.data(), 100) / 1e-58, 1, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Every, AdamWTest, AllTargets(), TargetOf);

TEST(AdamWThreadsTest, ThreadsDoNotChangeTheResult) {
  constexpr int64_t kCount = 300'001;
  const auto run = [](int threads) {
    Parameters x(kCount, 1);
    AdamWUpdate(x.p.data(), x.g.data(), x.m.data(), x.v.data(), kCount, {}, threads);
    return x;
  };
  Parameters one = run(1);
  const double squares = SumOfSquares(one.p.data(), kCount, 1);
  for (const int threads : {0, 2, 3}) {
    Parameters other = run(threads);
    EXPECT_TRUE(SameBits(other.p.values(), one.p.values())) << threads;
    EXPECT_TRUE(SameBits(other.m.values(), one.m.values())) << threads;
    EXPECT_TRUE(SameBits(other.v.values(), one.v.values())) << threads;
    EXPECT_EQ(SumOfSquares(one.p.data(), kCount, threads), squares) << threads;
  }
}

}  // namespace
}  // namespace cosformer::testing
