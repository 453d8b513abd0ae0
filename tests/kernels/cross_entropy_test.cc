// Losses and gradients against the definition in double.
#include "kernels/cross_entropy.h"

#include <algorithm>

#include "support.h"

namespace cosformer::testing {
namespace {

using Doubles = std::vector<double>;

double LogSum(const Doubles& x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double v : x) sum += std::exp(v - top);
  return top + std::log(sum);
}

double Loss(const Doubles& x, size_t target, double smoothing) {
  const double log_sum = LogSum(x);
  double all = 0;
  for (const double v : x) all += log_sum - v;
  return (1 - smoothing) * (log_sum - x[target]) + smoothing * all / static_cast<double>(x.size());
}

Doubles LossGradient(const Doubles& x, size_t target, double smoothing) {
  const double log_sum = LogSum(x);
  Doubles d(x.size());
  for (size_t c = 0; c < x.size(); ++c) {
    d[c] = std::exp(x[c] - log_sum) - smoothing / static_cast<double>(x.size());
  }
  d[target] -= 1 - smoothing;
  return d;
}

TEST(CrossEntropyReferenceTest, GradientEqualsFiniteDifferences) {
  const std::vector<float> random = Normal(9, 1, 2);
  Doubles x(random.begin(), random.end());
  for (const double smoothing : {0.0, 0.1}) {
    const Doubles d = LossGradient(x, 4, smoothing);
    constexpr double kStep = 1e-5;
    for (size_t c = 0; c < x.size(); ++c) {
      const double at = x[c];
      x[c] = at + kStep;
      const double above = Loss(x, 4, smoothing);
      x[c] = at - kStep;
      const double below = Loss(x, 4, smoothing);
      x[c] = at;
      EXPECT_NEAR(d[c], (above - below) / (2 * kStep), 1e-9) << c;
    }
  }
}

struct EntropyCase {
  int64_t rows = 3;
  int64_t classes = 10;
  int64_t gap = 0;  // floats between rows
  float smoothing = 0;
  float scale = 1;
  double deviation = 3;
  double mean = 0;
};

void Check(const EntropyCase& c) {
  SCOPED_TRACE(std::to_string(c.rows) + " x " + std::to_string(c.classes));
  const int64_t stride = c.classes + c.gap;
  const int64_t n = c.rows * stride;
  const Buffer logits(Normal(n, 1, c.deviation, c.mean), static_cast<size_t>(c.classes) % 6);
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < c.rows; ++i) {
    targets.push_back(i % 4 == 2 ? kIgnoredTarget : (i * 7919 + c.classes / 2) % c.classes);
  }
  for (const bool gradient : {false, true}) {
    Buffer x = logits;
    Buffer losses(c.rows);
    std::vector<int64_t> argmax(targets.size(), -7);
    CrossEntropyRows(x.data(), c.rows, c.classes, stride, targets.data(), c.smoothing, c.scale,
                     gradient, losses.data(), argmax.data());
    std::vector<Expected> expected_losses;
    std::vector<Expected> expected;
    for (size_t i = 0; i < targets.size(); ++i) {
      const size_t begin = i * static_cast<size_t>(stride);
      const std::span<const float> row =
          logits.values().subspan(begin, static_cast<size_t>(c.classes));
      const Doubles exact(row.begin(), row.end());
      const size_t top =
          static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
      ASSERT_EQ(argmax[i], static_cast<int64_t>(top));
      const bool ignored = targets[i] == kIgnoredTarget;
      // x - max is rounded once, which the exponential multiplies: as many units as it is large,
      // weighted by p in the sum, which adds its own.
      const double log_sum = LogSum(exact);
      double weighted = 0;
      double distances = 0;
      for (const double v : exact) {
        weighted += std::exp(v - log_sum) * (exact[top] - v);
        distances += (exact[top] - v) / static_cast<double>(c.classes);
      }
      const double depth = SumDepth(std::min<int64_t>(c.classes, 1024));
      const double sum_error = kUnit * (weighted + depth + 4);
      if (ignored) {
        expected_losses.push_back({0, 0});
      } else {
        const double loss = Loss(exact, static_cast<size_t>(targets[i]), c.smoothing);
        expected_losses.push_back(
            {loss, sum_error + kUnit * (loss + c.smoothing * (depth + 2) * distances)});
      }
      const Doubles d = ignored ? Doubles(exact.size())
                                : LossGradient(exact, static_cast<size_t>(targets[i]), c.smoothing);
      for (size_t k = 0; k < static_cast<size_t>(stride); ++k) {
        if (!gradient || k >= exact.size()) {
          expected.push_back({logits[begin + k], 0});
        } else if (ignored) {
          expected.push_back({0, 0});
        } else {
          const double p = std::exp(exact[k] - log_sum);
          const double hot = k == static_cast<size_t>(targets[i]) ? 1.0 : 0.0;
          const double units = p * (exact[top] - exact[k] + 6) + 3 * (hot + c.smoothing / 10);
          expected.push_back({c.scale * d[k], c.scale * (kUnit * units + p * sum_error) + 1e-37});
        }
      }
    }
    ExpectClose(losses.values(), expected_losses, "loss");
    ExpectClose(x.values(), expected, "logits");
  }
}

class CrossEntropyTest : public EveryTarget {};

TEST_P(CrossEntropyTest, AgreesWithTheReferenceAtEveryNumberOfClasses) {
  for (const int64_t classes : Widths()) {
    EntropyCase c;
    c.classes = classes;
    c.rows = classes % 6;
    c.gap = classes % 3 == 0 ? 5 : 0;
    c.smoothing = classes % 2 == 0 ? 0.1f : 0.0f;
    c.scale = classes % 5 == 0 ? 0.01f : 1.0f;
    Check(c);
  }
}

TEST_P(CrossEntropyTest, FiftyThousandClasses) {
  EntropyCase c;
  c.classes = 50'257;
  for (const double deviation : {0.01, 3.0, 30.0}) {
    c.deviation = deviation;
    c.smoothing = deviation > 1 ? 0.1f : 0.0f;
    Check(c);
  }
}

TEST_P(CrossEntropyTest, LargeLogitsDoNotOverflow) {
  EntropyCase c;
  c.classes = 100;
  c.mean = 1e4;
  Check(c);
  c.mean = -1e4;
  Check(c);
  c.mean = 0;
  c.deviation = 1e3;
  Check(c);
}

TEST_P(CrossEntropyTest, AMaskedClassHasNoPart) {
  std::vector<float> x = {1.0f, -kInfinity, 2.0f, -1e4f, 0.5f};
  std::vector<float> without = {1.0f, 2.0f, 0.5f};
  const int64_t target = 2;
  const int64_t target_without = 1;
  float loss = kNaN;
  float loss_without = kNaN;
  CrossEntropyRows(x.data(), 1, 5, 5, &target, 0, 1, true, &loss);
  CrossEntropyRows(without.data(), 1, 3, 3, &target_without, 0, 1, true, &loss_without);
  EXPECT_FLOAT_EQ(loss, loss_without);
  EXPECT_EQ(x[1], 0.0f);
  EXPECT_EQ(x[3], 0.0f);
  EXPECT_FLOAT_EQ(x[0], without[0]);
}

TEST_P(CrossEntropyTest, NaNReachesTheLoss) {
  for (size_t at = 0; at < 40; ++at) {
    std::vector<float> x(40, 1.0f);
    x[at] = kNaN;
    const int64_t target = 3;
    float loss = 0;
    int64_t argmax = -1;
    CrossEntropyRows(x.data(), 1, 40, 40, &target, 0, 1, true, &loss, &argmax);
    EXPECT_TRUE(std::isnan(loss)) << at;
    EXPECT_TRUE(argmax >= 0 && argmax < 40);
  }
}

TEST_P(CrossEntropyTest, TheFirstOfEqualLogitsIsTheLargest) {
  for (const size_t first : {0u, 5u, 1023u, 1024u, 2500u}) {
    std::vector<float> x(3000, 0.5f);
    x[first] = x[2700] = x[2999] = 4.0f;
    const int64_t target = kIgnoredTarget;
    float loss = kNaN;
    int64_t argmax = -1;
    CrossEntropyRows(x.data(), 1, 3000, 3000, &target, 0, 1, false, &loss, &argmax);
    EXPECT_EQ(argmax, static_cast<int64_t>(first));
    EXPECT_EQ(loss, 0.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CrossEntropyTest, AllTargets(), TargetOf);

TEST(CrossEntropyThreadsTest, ThreadsDoNotChangeTheResult) {
  constexpr int64_t kRows = 70;
  constexpr int64_t kClasses = 3001;
  const std::vector<float> logits = Normal(kRows * kClasses, 1, 3);
  const std::vector<int64_t> targets(kRows, 17);
  const auto run = [&](int threads) {
    Buffer x(logits, 0);
    Buffer losses(kRows);
    CrossEntropyRows(x.data(), kRows, kClasses, kClasses, targets.data(), 0.1f, 1, true,
                     losses.data(), nullptr, threads);
    return std::pair(x, losses);
  };
  const auto one = run(1);
  for (const int threads : {0, 2, 3}) {
    const auto other = run(threads);
    EXPECT_TRUE(SameBits(other.first.values(), one.first.values())) << threads;
    EXPECT_TRUE(SameBits(other.second.values(), one.second.values())) << threads;
  }
}

}  // namespace
}  // namespace cosformer::testing
