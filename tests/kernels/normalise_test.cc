// Norms against their definition in double, and the gradients of that against finite differences.
#include "kernels/normalise.h"

#include <algorithm>

#include "support.h"

namespace cosformer::testing {
namespace {

using Doubles = std::vector<double>;

struct NormCase {
  int64_t rows = 3;
  int64_t width = 5;
  NormKind kind = NormKind::kLayerNorm;
  bool residual = true;
  bool bias = true;
  bool gradient_in = true;
  float p = 0;
  double deviation = 1;
  double mean = 0;
  size_t offset = 1;
};

double Mean(const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

double MeanSize(const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += std::abs(v);
  return sum / static_cast<double>(x.size());
}

// One row: mean (0 for RMSNorm) and 1 / sqrt(mean square of the centred row + epsilon).
struct Moments {
  Moments(const Doubles& s, const NormOptions& options) {
    mean = options.kind == NormKind::kLayerNorm ? Mean(s) : 0.0;
    double squares = 0;
    for (const double v : s) squares += (v - mean) * (v - mean);
    rstd = 1 / std::sqrt(squares / static_cast<double>(s.size()) +
                         static_cast<double>(options.epsilon));
  }
  double mean;
  double rstd;
};

Doubles NormRow(const Doubles& s, const Doubles& weight, const NormOptions& options) {
  const Moments m(s, options);
  Doubles y(s.size());
  for (size_t c = 0; c < s.size(); ++c) y[c] = weight[c] * (s[c] - m.mean) * m.rstd;
  return y;
}

// The gradient of sum dy * NormRow(s).
Doubles NormRowGradient(const Doubles& s, const Doubles& weight, const Doubles& dy, double mean,
                        double rstd, NormKind kind) {
  const size_t n = s.size();
  Doubles g(n);
  Doubles gn(n);
  for (size_t c = 0; c < n; ++c) {
    g[c] = dy[c] * weight[c];
    gn[c] = g[c] * (s[c] - mean) * rstd;
  }
  const double mean_g = kind == NormKind::kLayerNorm ? Mean(g) : 0.0;
  const double mean_gn = Mean(gn);
  Doubles ds(n);
  for (size_t c = 0; c < n; ++c) {
    ds[c] = rstd * (g[c] - mean_g - (s[c] - mean) * rstd * mean_gn);
  }
  return ds;
}

TEST(NormReferenceTest, GradientEqualsFiniteDifferences) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    const auto random = [](uint64_t seed) {
      const std::vector<float> x = Normal(7, seed);
      return Doubles(x.begin(), x.end());
    };
    NormOptions options;
    options.kind = kind;
    Doubles s = random(1);
    const Doubles weight = random(2);
    const Doubles dy = random(3);
    const Moments m(s, options);
    const Doubles ds = NormRowGradient(s, weight, dy, m.mean, m.rstd, kind);
    const auto objective = [&] {
      const Doubles y = NormRow(s, weight, options);
      double sum = 0;
      for (size_t c = 0; c < y.size(); ++c) sum += dy[c] * y[c];
      return sum;
    };
    constexpr double kStep = 1e-5;
    for (size_t c = 0; c < s.size(); ++c) {
      const double at = s[c];
      s[c] = at + kStep;
      const double above = objective();
      s[c] = at - kStep;
      const double below = objective();
      s[c] = at;
      // The third derivative is of order 1: the error is of order step^2 = 1e-10.
      EXPECT_NEAR(ds[c], (above - below) / (2 * kStep), 1e-8) << c;
    }
  }
}

// Inputs, a forward and a backward pass, and what they should give.
class NormProblem {
 public:
  explicit NormProblem(const NormCase& c)
      : c_(c),
        n_(c.rows * c.width),
        x_(Normal(n_, 1, c.deviation, c.mean), c.offset),
        r_(Normal(n_, 2, c.deviation), c.offset + 1),
        weight_(Normal(c.width, 3), c.offset + 2),
        bias_(Normal(c.width, 4), c.offset + 3),
        dy_(Normal(n_, 5), c.offset),
        ds_in_(Normal(n_, 6), c.offset + 1) {
    options_.kind = c.kind;
    options_.dropout = {c.p, 99};
  }

  void CheckForward() {
    Buffer s(n_, c_.offset);
    Buffer y(n_, c_.offset + 2);
    Buffer mean(c_.rows);
    Buffer rstd(c_.rows);
    NormForwardArgs args = {.x = x_.data(), .weight = weight_.data(), .y = y.data()};
    if (c_.residual) {
      args.r = r_.data();
      args.s = s.data();
    }
    if (HasBias()) args.bias = bias_.data();
    args.mean = mean.data();
    args.rstd = rstd.data();
    NormForward(args, c_.rows, c_.width, options_);

    std::vector<Expected> sums;
    std::vector<Expected> outputs;
    std::vector<Expected> means;
    std::vector<Expected> rstds;
    const double depth = SumDepth(c_.width);
    for (int64_t row = 0; row < c_.rows; ++row) {
      Doubles exact(Width());
      double s_error = 0;
      for (size_t c = 0; c < Width(); ++c) {
        const size_t i = Index(row, c);
        double added = 0;
        if (c_.residual && DropoutKeeps(options_.dropout, static_cast<int64_t>(i))) {
          added = r_[i] / (1.0 - c_.p);
        }
        exact[c] = x_[i] + added;
        const double tolerance =
            c_.residual ? 3 * kUnit * (std::abs(x_[i]) + std::abs(added)) : 0.0;
        s_error = std::max(s_error, tolerance);
        sums.push_back({exact[c], tolerance});
      }
      const Moments m(exact, options_);
      // The errors of s and of the mean shift all deviations; each of them changes rstd by no more
      // than its part of the standard deviation.
      const double mean_error = LayerNorm() ? (depth + 2) * kUnit * MeanSize(exact) : 0.0;
      const double shift = s_error + mean_error;
      const double rstd_error = shift * m.rstd + (depth + 8) * kUnit;
      means.push_back({m.mean, shift});
      rstds.push_back({m.rstd, rstd_error * m.rstd});
      for (size_t c = 0; c < Width(); ++c) {
        const double w = weight_[c];
        const double b = HasBias() ? bias_[c] : 0.0;
        const double normal = (exact[c] - m.mean) * m.rstd;
        const double size = std::abs(w * normal);
        outputs.push_back({w * normal + b, std::abs(w) * shift * m.rstd + size * rstd_error +
                                               4 * kUnit * (size + std::abs(b))});
      }
    }
    ExpectClose(y.values(), outputs, "y");
    ExpectClose(rstd.values(), rstds, "rstd");
    if (LayerNorm()) ExpectClose(mean.values(), means, "mean");
    if (c_.residual) {
      ExpectClose(s.values(), sums, "s");
    } else {
      for (size_t i = 0; i < s.size(); ++i) ASSERT_TRUE(std::isnan(s[i]));
    }
  }

  struct Gradients {
    Buffer ds;
    Buffer dr;
    Buffer dweight;
    Buffer dbias;
  };

  Gradients Backward(int threads = 0) {
    Saved();
    Gradients g = {Buffer(n_, c_.offset), Buffer(n_, c_.offset + 1), Buffer(c_.width),
                   Buffer(c_.width)};
    NormBackwardArgs args = {.dy = dy_.data(),
                             .s = x_.data(),
                             .weight = weight_.data(),
                             .mean = LayerNorm() ? mean_.data() : nullptr,
                             .rstd = rstd_.data(),
                             .ds = g.ds.data(),
                             .dweight = g.dweight.data()};
    if (c_.gradient_in) args.ds_in = ds_in_.data();
    if (c_.p > 0) args.dr = g.dr.data();
    if (HasBias()) args.dbias = g.dbias.data();
    NormBackward(args, c_.rows, c_.width, options_, threads);
    return g;
  }

  void CheckBackward() {
    const Gradients g = Backward();
    std::vector<Expected> ds;
    std::vector<Expected> dr;
    std::vector<Expected> dweight(Width());
    std::vector<Expected> dbias(Width());
    const double depth = SumDepth(c_.width);
    for (int64_t row = 0; row < c_.rows; ++row) {
      const double mean = LayerNorm() ? mean_[static_cast<size_t>(row)] : 0.0;
      const double rstd = rstd_[static_cast<size_t>(row)];
      Doubles s(Width());
      Doubles dy(Width());
      Doubles weight(Width());
      Doubles sizes_g(Width());
      Doubles sizes_gn(Width());
      for (size_t c = 0; c < Width(); ++c) {
        s[c] = x_[Index(row, c)];
        dy[c] = dy_[Index(row, c)];
        weight[c] = weight_[c];
        sizes_g[c] = std::abs(dy[c] * weight[c]);
        sizes_gn[c] = std::abs(dy[c] * weight[c] * (s[c] - mean) * rstd);
      }
      const Doubles exact = NormRowGradient(s, weight, dy, mean, rstd, c_.kind);
      const double mean_g = Mean(sizes_g);
      const double mean_gn = Mean(sizes_gn);
      for (size_t c = 0; c < Width(); ++c) {
        const size_t i = Index(row, c);
        const double in = c_.gradient_in ? ds_in_[i] : 0.0;
        const double normal = (s[c] - mean) * rstd;
        const double terms =
            sizes_g[c] + (depth + 3) * mean_g + (depth + 6) * std::abs(normal) * mean_gn;
        const double tolerance = 4 * kUnit * (rstd * terms + std::abs(in));
        ds.push_back({exact[c] + in, tolerance});
        const bool kept = DropoutKeeps(options_.dropout, static_cast<int64_t>(i));
        const double scale = kept ? 1 / (1.0 - c_.p) : 0.0;
        dr.push_back(
            {ds.back().value * scale, scale * (tolerance + 3 * kUnit * std::abs(ds.back().value))});
        const double unit = (ColumnDepth(c_.rows) + 4) * kUnit;
        dweight[c].value += dy[c] * normal;
        dweight[c].tolerance += unit * std::abs(dy[c] * normal);
        dbias[c].value += dy[c];
        dbias[c].tolerance += unit * std::abs(dy[c]);
      }
    }
    ExpectClose(g.ds.values(), ds, "ds");
    if (c_.p > 0) ExpectClose(g.dr.values(), dr, "dr");
    ExpectClose(g.dweight.values(), dweight, "dweight");
    if (HasBias()) ExpectClose(g.dbias.values(), dbias, "dbias");
  }

 private:
  // mean and rstd as a forward pass without residual leaves them.
  void Saved() {
    mean_.clear();
    rstd_.clear();
    for (int64_t row = 0; row < c_.rows; ++row) {
      Doubles s(Width());
      for (size_t c = 0; c < Width(); ++c) s[c] = x_[Index(row, c)];
      const Moments m(s, options_);
      mean_.push_back(static_cast<float>(m.mean));
      rstd_.push_back(static_cast<float>(m.rstd));
    }
  }

  bool LayerNorm() const { return c_.kind == NormKind::kLayerNorm; }
  bool HasBias() const { return LayerNorm() && c_.bias; }
  size_t Width() const { return static_cast<size_t>(c_.width); }
  size_t Index(int64_t row, size_t c) const { return static_cast<size_t>(row) * Width() + c; }

  NormCase c_;
  int64_t n_;
  NormOptions options_;
  Buffer x_;
  Buffer r_;
  Buffer weight_;
  Buffer bias_;
  Buffer dy_;
  Buffer ds_in_;
  std::vector<float> mean_;
  std::vector<float> rstd_;
};

class NormTest : public EveryTarget {};

TEST_P(NormTest, AgreesWithTheReferenceAtEveryWidth) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    for (const int64_t width : Widths()) {
      SCOPED_TRACE(width);
      NormCase c;
      c.kind = kind;
      c.width = width;
      c.rows = width % 4;  // 0 is one of them
      c.residual = width % 2 == 0;
      c.bias = width % 3 != 0;
      c.gradient_in = width % 5 != 0;
      c.p = width % 4 < 2 ? 0.0f : 0.3f;
      c.offset = static_cast<size_t>(width) % 7;
      NormProblem problem(c);
      problem.CheckForward();
      problem.CheckBackward();
    }
  }
}

TEST_P(NormTest, AgreesWithTheReferenceOverManyRows) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    for (const int64_t rows : {15, 16, 17, 100, 1025, kSanitized ? 1100 : 3000}) {
      SCOPED_TRACE(rows);
      NormCase c;
      c.kind = kind;
      c.rows = rows;
      c.width = 65;
      c.p = 0.1f;
      NormProblem problem(c);
      problem.CheckForward();
      problem.CheckBackward();
    }
  }
}

// A mean of 1000 deviations costs digits of s, but no more: E(s^2) - E(s)^2 would have none left.
TEST_P(NormTest, SurvivesAMeanThatDwarfsTheDeviation) {
  NormCase c;
  c.width = 512;
  c.residual = false;
  c.mean = 1000;
  NormProblem(c).CheckForward();
}

TEST_P(NormTest, EpsilonCountsWhereTheDeviationIsSmall) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    NormCase c;
    c.kind = kind;
    c.width = 64;
    c.deviation = 1e-3;
    NormProblem problem(c);
    problem.CheckForward();
    problem.CheckBackward();
  }
}

INSTANTIATE_TEST_SUITE_P(Every, NormTest, AllTargets(), TargetOf);

TEST(NormAliasTest, OutputsMayTakeThePlaceOfInputs) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kWidth = 37;
  constexpr int64_t kCount = kRows * kWidth;
  const std::vector<float> x = Normal(kCount, 1);
  const std::vector<float> r = Normal(kCount, 2);
  const std::vector<float> weight = Normal(kWidth, 3);
  NormOptions options;
  options.dropout = {0.2f, 4};
  Buffer s(kCount);
  Buffer y(kCount);
  Buffer mean(kRows);
  Buffer rstd(kRows);
  NormForwardArgs args = {.x = x.data(),
                          .r = r.data(),
                          .weight = weight.data(),
                          .s = s.data(),
                          .y = y.data(),
                          .mean = mean.data(),
                          .rstd = rstd.data()};
  NormForward(args, kRows, kWidth, options);
  Buffer x_and_s(x, 0);
  Buffer r_and_y(r, 0);
  NormForward({.x = x_and_s.data(),
               .r = r_and_y.data(),
               .weight = weight.data(),
               .s = x_and_s.data(),
               .y = r_and_y.data()},
              kRows, kWidth, options);
  EXPECT_TRUE(SameBits(x_and_s.values(), s.values()));
  EXPECT_TRUE(SameBits(r_and_y.values(), y.values()));

  const std::vector<float> dy = Normal(kCount, 5);
  const std::vector<float> ds_in = Normal(kCount, 6);
  Buffer ds(kCount);
  NormBackwardArgs back = {.dy = dy.data(),
                           .ds_in = ds_in.data(),
                           .s = s.data(),
                           .weight = weight.data(),
                           .mean = mean.data(),
                           .rstd = rstd.data(),
                           .ds = ds.data()};
  NormBackward(back, kRows, kWidth, options);
  Buffer in_place(ds_in, 0);
  back.ds_in = in_place.data();
  back.ds = in_place.data();
  NormBackward(back, kRows, kWidth, options);
  EXPECT_TRUE(SameBits(in_place.values(), ds.values()));
  Buffer over_dy(dy, 0);
  back.ds_in = ds_in.data();
  back.dy = over_dy.data();
  back.ds = over_dy.data();
  NormBackward(back, kRows, kWidth, options);
  EXPECT_TRUE(SameBits(over_dy.values(), ds.values()));
}

TEST(NormStridesTest, WhatLiesBetweenTheRowsIsLeftAlone) {
  constexpr int64_t kRows = 5, kWidth = 37, kApart = 41;
  const std::vector<float> x = Normal(kRows * kWidth, 1);
  const std::vector<float> weight = Normal(kWidth, 3);
  Buffer dense(kRows * kWidth);
  std::vector<float> y(kRows * kApart, 77.0f);
  NormForwardArgs args = {.x = x.data(), .weight = weight.data(), .y = dense.data()};
  NormForward(args, kRows, kWidth, {});
  args.y = y.data();
  args.y_stride = kApart;
  NormForward(args, kRows, kWidth, {});
  for (int64_t i = 0; i < kRows * kApart; ++i) {
    const int64_t row = i / kApart, c = i % kApart;
    const float expected = c < kWidth ? dense[static_cast<size_t>(row * kWidth + c)] : 77.0f;
    EXPECT_EQ(y[static_cast<size_t>(i)], expected) << row << ", " << c;
  }
}

TEST(NormThreadsTest, ThreadsDoNotChangeTheResult) {
  constexpr int64_t kRows = 1000;
  constexpr int64_t kWidth = 131;
  const std::vector<float> x = Normal(kRows * kWidth, 1);
  const std::vector<float> r = Normal(kRows * kWidth, 2);
  const std::vector<float> weight = Normal(kWidth, 3);
  NormOptions options;
  options.dropout = {0.2f, 4};
  const auto forward = [&](int threads) {
    Buffer all(2 * kRows * kWidth + 2 * kRows);
    float* s = all.data();
    float* y = s + kRows * kWidth;
    float* mean = y + kRows * kWidth;
    NormForward({.x = x.data(),
                 .r = r.data(),
                 .weight = weight.data(),
                 .s = s,
                 .y = y,
                 .mean = mean,
                 .rstd = mean + kRows},
                kRows, kWidth, options, threads);
    return all;
  };
  const Buffer one = forward(1);
  NormCase c;
  c.rows = kRows;
  c.width = kWidth;
  c.p = 0.2f;
  NormProblem problem(c);
  const NormProblem::Gradients gradients = problem.Backward(1);
  for (const int threads : {0, 2, 3}) {
    EXPECT_TRUE(SameBits(forward(threads).values(), one.values())) << threads;
    const NormProblem::Gradients g = problem.Backward(threads);
    EXPECT_TRUE(SameBits(g.ds.values(), gradients.ds.values())) << threads;
    EXPECT_TRUE(SameBits(g.dr.values(), gradients.dr.values())) << threads;
    EXPECT_TRUE(SameBits(g.dweight.values(), gradients.dweight.values())) << threads;
    EXPECT_TRUE(SameBits(g.dbias.values(), gradients.dbias.values())) << threads;
  }
}

}  // namespace
}  // namespace cosformer::testing
