// Activations against their definition in double, over the whole range of floats.
#include "kernels/activate.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "support.h"

namespace cosformer::testing {
namespace {

double Phi(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double Density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }
double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

// y, and its derivatives with respect to x and, for kSwiglu, to up.
struct Point {
  double y;
  double slope;
  double up_slope;
};

Point Exact(Activation kind, double x, double up) {
  switch (kind) {
    case Activation::kGelu:
      return {x * Phi(x), Phi(x) + x * Density(x), 0};
    case Activation::kRelu:
      return {x > 0 ? x : 0, x > 0 ? 1.0 : 0.0, 0};
    case Activation::kSwiglu:
      break;
  }
  const double p = Logistic(x);
  return {x * p * up, up * p * (1 + x * Logistic(-x)), x * p};
}

// What a slope is the sum of: errors are relative to these, as the sum may vanish.
double SlopeTerms(Activation kind, double x, double up) {
  switch (kind) {
    case Activation::kGelu:
      return x < 0 ? Phi(x) - x * Density(x) : 1;
    case Activation::kRelu:
      return 0;
    case Activation::kSwiglu:
      break;
  }
  return std::abs(up) * Logistic(x) * (1 + std::abs(x) * Logistic(-x));
}

constexpr Activation kAll[] = {Activation::kGelu, Activation::kRelu, Activation::kSwiglu};

TEST(ActivateReferenceTest, SlopesEqualFiniteDifferences) {
  constexpr double kStep = 1e-5;
  for (const Activation kind : kAll) {
    for (double x = -6.03; x < 6; x += 0.1) {
      const double up = 1.5;
      const Point p = Exact(kind, x, up);
      const auto y = [&](double at, double at_up) { return Exact(kind, at, at_up).y; };
      EXPECT_NEAR(p.slope, (y(x + kStep, up) - y(x - kStep, up)) / (2 * kStep), 1e-8) << x;
      if (kind == Activation::kSwiglu) {
        EXPECT_NEAR(p.up_slope, (y(x, up + kStep) - y(x, up - kStep)) / (2 * kStep), 1e-8) << x;
      }
    }
  }
}

// Roundings of one unit each on the way to GELU: two to the argument of a polynomial, two of its
// approximations (together), two products, two in the exponential. The polynomial's own come to
// 5 in the far tail, where its terms nearly cancel.
constexpr double kGeluNear = 8;
constexpr double kGeluFar = 12;

class ActivateTest : public EveryTarget {};

// Every 1009th float (a tenth of those, sanitized) of both signs, up to infinity.
std::vector<float> Sweep() {
  std::vector<float> x;
  constexpr uint32_t kInfinityBits = 0x7f800000;
  for (uint32_t bits = 0; bits < kInfinityBits; bits += kSanitized ? 10'007 : 1'009) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-x.back());
  }
  return x;
}

TEST_P(ActivateTest, GeluIsRightToItsLastDigitsForEveryFloat) {
  const std::vector<float> x = Sweep();
  const int64_t n = static_cast<int64_t>(x.size());
  const std::vector<float> ones(x.size(), 1.0f);
  Buffer y(n);
  Buffer slope(n);
  ActivateForward(Activation::kGelu, x.data(), nullptr, 1, n, y.data());
  ActivateBackward(Activation::kGelu, ones.data(), x.data(), nullptr, 1, n, slope.data(), nullptr);
  double near = 0;
  double far = 0;
  double of_slope = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_FALSE(std::isnan(y[i]) || std::isnan(slope[i])) << x[i];
    const Point p = Exact(Activation::kGelu, x[i], 0);
    // Relative to the result, however small, as long as it is a normal number.
    const auto units = [](double error, double size) {
      return std::max(0.0, std::abs(error) - kSmallest) / std::max(size, 0x1p-126) / kUnit;
    };
    double& worst = std::abs(x[i]) < 4 ? near : far;
    worst = std::max(worst, units(y[i] - p.y, std::abs(p.y)));
    of_slope =
        std::max(of_slope, units(slope[i] - p.slope, SlopeTerms(Activation::kGelu, x[i], 0)));
  }
  EXPECT_LE(near, kGeluNear);
  EXPECT_LE(far, kGeluFar);
  EXPECT_LE(of_slope, kGeluNear);
}

TEST_P(ActivateTest, LargeNumbersAndWhatIsNoNumber) {
  const std::vector<float> x = {-1e38f, -1e10f,    -100.0f, -kInfinity, 100.0f,
                                1e38f,  kInfinity, kNaN,    0.0f,       -0.0f};
  const int64_t n = static_cast<int64_t>(x.size());
  const std::vector<float> ones(x.size(), 1.0f);
  for (const Activation kind : kAll) {
    std::vector<float> pre = x;
    if (kind == Activation::kSwiglu) pre.insert(pre.end(), ones.begin(), ones.end());
    Buffer y(n);
    Buffer slope(PreWidth(kind, n));
    ActivateForward(kind, pre.data(), nullptr, 1, n, y.data());
    ActivateBackward(kind, ones.data(), pre.data(), nullptr, 1, n, slope.data(), nullptr);
    for (size_t i = 0; i < 4; ++i) {
      // The SiLU of -100 is -3.7e-42.
      EXPECT_NEAR(y[i], 0, 1e-41) << x[i];
      EXPECT_TRUE(kind == Activation::kRelu || std::signbit(y[i])) << x[i];
      EXPECT_NEAR(slope[i], 0, 1e-41) << x[i];
    }
    for (size_t i = 4; i < 7; ++i) {
      EXPECT_EQ(y[i], x[i]);
      EXPECT_EQ(slope[i], 1.0f);
    }
    EXPECT_TRUE(std::isnan(y[7]));
    EXPECT_TRUE(kind == Activation::kRelu || std::isnan(slope[7]));
    EXPECT_EQ(y[8], 0.0f);
    EXPECT_EQ(y[9], 0.0f);
    for (size_t i = 8; i < 10; ++i) EXPECT_EQ(slope[i], kind == Activation::kRelu ? 0.0f : 0.5f);
  }
}

struct Shape {
  int64_t rows;
  int64_t hidden;
};

void Check(Activation kind, const Shape& shape, bool with_bias, size_t offset) {
  const int64_t width = PreWidth(kind, shape.hidden);
  Buffer pre(Normal(shape.rows * width, 1, 3), offset);
  Buffer bias(Normal(width, 2), offset + 1);
  Buffer dy(Normal(shape.rows * shape.hidden, 3), offset + 2);
  Buffer y(shape.rows * shape.hidden, offset);
  Buffer dpre(shape.rows * width, offset + 3);
  Buffer dbias(width, offset);
  const float* b = with_bias ? bias.data() : nullptr;
  ActivateForward(kind, pre.data(), b, shape.rows, shape.hidden, y.data());
  ActivateBackward(kind, dy.data(), pre.data(), b, shape.rows, shape.hidden, dpre.data(),
                   dbias.data());
  std::vector<Expected> ys;
  std::vector<Expected> slopes(pre.size());
  std::vector<Expected> sums(static_cast<size_t>(width));
  const size_t hidden = static_cast<size_t>(shape.hidden);
  for (size_t row = 0; row < static_cast<size_t>(shape.rows); ++row) {
    const size_t begin = row * static_cast<size_t>(width);
    // In float, as the sum is the argument.
    const auto at = [&](size_t c) { return with_bias ? pre[begin + c] + bias[c] : pre[begin + c]; };
    for (size_t c = 0; c < hidden; ++c) {
      const double up = kind == Activation::kSwiglu ? at(hidden + c) : 0;
      const double x = at(c);
      const double d = dy[row * hidden + c];
      const Point p = Exact(kind, x, up);
      ys.push_back({p.y, kGeluFar * kUnit * std::abs(p.y)});
      slopes[begin + c] = {d * p.slope,
                           (kGeluNear + 1) * kUnit * std::abs(d) * SlopeTerms(kind, x, up)};
      if (kind == Activation::kSwiglu) {
        slopes[begin + hidden + c] = {d * p.up_slope, 7 * kUnit * std::abs(d * p.up_slope)};
      }
    }
    for (size_t c = 0; c < static_cast<size_t>(width); ++c) {
      const Expected& e = slopes[begin + c];
      sums[c].value += e.value;
      sums[c].tolerance += e.tolerance + ColumnDepth(shape.rows) * kUnit * std::abs(e.value);
    }
  }
  ExpectClose(y.values(), ys, "y");
  ExpectClose(dpre.values(), slopes, "dpre");
  ExpectClose(dbias.values(), sums, "dbias");
}

TEST_P(ActivateTest, AgreesWithTheReferenceAtEveryWidth) {
  for (const Activation kind : kAll) {
    for (const int64_t width : Widths()) {
      SCOPED_TRACE(width);
      Check(kind, {width % 4, width}, width % 3 != 0, static_cast<size_t>(width) % 7);
    }
  }
}

TEST_P(ActivateTest, AgreesWithTheReferenceOverManyRows) {
  for (const Activation kind : kAll) {
    for (const int64_t rows : {15, 16, 17, 100, 1025, 1100}) {
      SCOPED_TRACE(rows);
      Check(kind, {rows, 33}, true, 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ActivateTest, AllTargets(), TargetOf);

TEST(ActivateAliasTest, OutputsMayTakeThePlaceOfInputs) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kHidden = 37;
  for (const Activation kind : kAll) {
    const int64_t width = PreWidth(kind, kHidden);
    const std::vector<float> pre = Normal(kRows * width, 1);
    const std::vector<float> dy = Normal(kRows * kHidden, 2);
    Buffer dpre(kRows * width);
    ActivateBackward(kind, dy.data(), pre.data(), nullptr, kRows, kHidden, dpre.data(), nullptr);
    Buffer over_pre(pre, 0);
    ActivateBackward(kind, dy.data(), over_pre.data(), nullptr, kRows, kHidden, over_pre.data(),
                     nullptr);
    EXPECT_TRUE(SameBits(over_pre.values(), dpre.values()));
    if (kind == Activation::kSwiglu) continue;
    Buffer over_dy(dy, 0);
    ActivateBackward(kind, over_dy.data(), pre.data(), nullptr, kRows, kHidden, over_dy.data(),
                     nullptr);
    EXPECT_TRUE(SameBits(over_dy.values(), dpre.values()));
    Buffer y(kRows * kHidden);
    ActivateForward(kind, pre.data(), nullptr, kRows, kHidden, y.data());
    Buffer in_place(pre, 0);
    ActivateForward(kind, in_place.data(), nullptr, kRows, kHidden, in_place.data());
    EXPECT_TRUE(SameBits(in_place.values(), y.values()));
  }
}

TEST_P(ActivateTest, LeavesWhatLiesBetweenTheRowsAlone) {
  constexpr int64_t kRows = 5, kHidden = 37;
  for (const Activation kind : kAll) {
    const int64_t width = PreWidth(kind, kHidden), apart = width + 3, y_apart = kHidden + 7;
    const std::vector<float> pre = Normal(kRows * width, 1);
    const std::vector<float> bias = Normal(width, 2);
    std::vector<float> spread(static_cast<size_t>(kRows * apart), kNaN);
    for (int64_t row = 0; row < kRows; ++row) {
      std::copy_n(pre.begin() + row * width, width, spread.begin() + row * apart);
    }
    Buffer dense(kRows * kHidden);
    ActivateForward(kind, pre.data(), bias.data(), kRows, kHidden, dense.data());
    std::vector<float> y(static_cast<size_t>(kRows * y_apart), 77.0f);
    ActivateForward(kind, spread.data(), bias.data(), kRows, kHidden, y.data(), 0,
                    {apart, y_apart});
    for (int64_t i = 0; i < kRows * y_apart; ++i) {
      const int64_t row = i / y_apart, c = i % y_apart;
      const float expected = c < kHidden ? dense[static_cast<size_t>(row * kHidden + c)] : 77.0f;
      EXPECT_EQ(y[static_cast<size_t>(i)], expected) << row << ", " << c;
    }
  }
}

TEST(ActivateThreadsTest, ThreadsDoNotChangeTheResult) {
  constexpr int64_t kRows = 1000;
  constexpr int64_t kHidden = 131;
  for (const Activation kind : kAll) {
    const int64_t width = PreWidth(kind, kHidden);
    const std::vector<float> pre = Normal(kRows * width, 1);
    const std::vector<float> bias = Normal(width, 2);
    const std::vector<float> dy = Normal(kRows * kHidden, 3);
    const auto run = [&](int threads) {
      Buffer all(kRows * (kHidden + width) + width);
      float* dpre = all.data() + kRows * kHidden;
      ActivateForward(kind, pre.data(), bias.data(), kRows, kHidden, all.data(), threads);
      ActivateBackward(kind, dy.data(), pre.data(), bias.data(), kRows, kHidden, dpre,
                       dpre + kRows * width, threads);
      return all;
    };
    const Buffer one = run(1);
    for (const int threads : {0, 2, 3}) EXPECT_TRUE(SameBits(run(threads).values(), one.values()));
  }
}

}  // namespace
}  // namespace cosformer::testing
