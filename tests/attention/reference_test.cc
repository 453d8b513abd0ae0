// The reference is what everything else is held against, so it is held against something simpler:
// numbers worked out by hand, and its own gradients against its own finite differences.
#include "attention/reference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "problem.h"

namespace cosformer::testing {
namespace {

TEST(ReferenceTest, TwoTokensByHand) {
  // phi(q_1) . phi(k) = 2 * 3 and 2 * 5; the older key counts cos(pi/4) with a horizon of 2.
  const std::vector<float> q{1, 2}, k{3, 5}, v{10, 20};
  LinearOptions options;
  options.kernel.horizon = 2;
  const auto view = [](const std::vector<float>& x) { return ConstView::Of(x.data(), 1, 2, 1, 1); };
  const auto second = reference::LinearRow(view(q), view(k), view(v), options, 0, 1, 0);
  const double older = 6 * std::sqrt(0.5);
  EXPECT_NEAR(second.normaliser, older + 10, 1e-14);
  EXPECT_NEAR(second.output[0], (older * 10 + 10 * 20) / (older + 10), 1e-14);
  const auto first = reference::LinearRow(view(q), view(k), view(v), options, 0, 0, 0);
  EXPECT_EQ(first.normaliser, 3);
  EXPECT_EQ(first.output[0], 10);

  SoftmaxOptions softmax;
  const auto row = reference::SoftmaxRow(view(q), view(k), view(v), softmax, 0, 1, 0);
  EXPECT_NEAR(row.normaliser, std::log(std::exp(6.) + std::exp(10.)), 1e-14);
  EXPECT_NEAR(row.output[0], 20 - 10 / (1 + std::exp(4.)), 1e-13);
}

TEST(ReferenceTest, FeatureMapsByHand) {
  const std::vector<float> q{-2, 3}, k{4, -5}, v{1};
  struct Expected {
    FeatureMap map;
    double sum;
  };
  const double slope = 0.01f;
  for (const auto& [map, sum] :
       {Expected{FeatureMap::kRelu, 0}, Expected{FeatureMap::kLeakyRelu, -23 * slope},
        Expected{FeatureMap::kIdentity, -23}, Expected{FeatureMap::kGiven, -23},
        Expected{FeatureMap::kEluPlusOne, 5 * std::exp(-2.) + 4 * std::exp(-5.)}}) {
    LinearOptions options;
    options.kernel.feature_map = map;
    options.kernel.horizon = 1;
    const auto row = reference::LinearRow(ConstView::Of(q.data(), 1, 1, 1, 2),
                                          ConstView::Of(k.data(), 1, 1, 1, 2),
                                          ConstView::Of(v.data(), 1, 1, 1, 1), options, 0, 0, 0);
    EXPECT_NEAR(row.normaliser, sum, 1e-13) << Name(map);
    EXPECT_NEAR(row.output[0], sum == 0 ? 0 : 1, 1e-13) << Name(map);
  }
}

TEST(ReferenceTest, EndlessRowsForgetHalfAHorizonAtATime) {
  // Horizon 4: rows 0 to 3 see everything, rows 4 and 5 from 2 on, rows 6 and 7 from 4 on.
  Problem<Linear> p(SelfAttention(8, 3));
  const std::vector<int64_t> oldest{0, 0, 0, 0, 2, 2, 4, 4};
  LinearKernel kernel;
  kernel.horizon = 4;
  for (int64_t i = 0; i < 8; ++i) {
    ConstView k = p.k.view(), v = p.v.view(), q = p.q.view();
    const auto from = [](ConstView& view, int64_t row, int64_t rows) {
      view.data = static_cast<const float*>(view.data) + row * view.length_stride;
      view.length = rows;
    };
    const auto endless = reference::EndlessRow(q, k, v, kernel, 0, i, 0);
    from(q, i, 1);
    from(k, oldest[i], i - oldest[i] + 1);
    from(v, oldest[i], i - oldest[i] + 1);
    LinearOptions options;
    options.kernel = kernel;
    const auto window = reference::LinearRow(q, k, v, options, 0, 0, 0);
    EXPECT_EQ(endless.output, window.output) << "row " << i;
  }
}

// Inputs on a grid on which steps are exact, and so far from zero that no step crosses the kink.
constexpr float kStep = 0x1p-8f;
void ToGrid(Tensor& x) {
  x.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
    const float rounded = std::round(x.At(b, i, h, e) / kStep) * kStep;
    x.Set(b, i, h, e, rounded + (rounded >= 0 ? 4 : -4) * kStep);
  });
}

// The derivative of sum(o * d_o) by one input element, from four neighbours:
// (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h, off by h^4 f''''' / 30.
template <class System>
void ExpectFiniteDifferences(const char* name, const Problem<System>& p, Tensor& input,
                             const std::vector<double>& gradient,
                             const std::vector<double>& magnitude) {
  const auto loss = [&] {
    const auto o = System::ReferenceForward(p.q.view(), p.k.view(), p.v.view(), p.Options()).o;
    double sum = 0;
    size_t n = 0;
    p.d_o.ForEach(
        [&](int64_t b, int64_t i, int64_t h, int64_t e) { sum += o[n++] * p.d_o.At(b, i, h, e); });
    return sum;
  };
  size_t n = 0;
  input.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
    const double analytic = gradient[n], size = magnitude[n];
    ++n;
    if (std::isinf(size)) return;
    const float x = input.At(b, i, h, e);
    const auto at = [&](float steps) {
      input.Set(b, i, h, e, x + steps * kStep);
      return loss();
    };
    const double difference =
        (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * static_cast<double>(kStep));
    input.Set(b, i, h, e, x);
    // h^4 = 2^-32; the fifth derivative of a quotient may be some hundred times the first.
    EXPECT_NEAR(difference, analytic, 0x1p-24 * size + 1e-10)
        << name << "[" << b << ", " << i << ", " << h << ", " << e << "]";
  });
}

template <class System>
void CheckGradients(Case c) {
  SCOPED_TRACE(Describe(c));
  Problem<System> p(c);
  for (Tensor* x : {&p.q, &p.k, &p.v}) ToGrid(*x);
  if (p.c.forgets) ToGrid(p.keep);
  const auto g =
      System::ReferenceBackward(p.q.view(), p.k.view(), p.v.view(), p.d_o.view(), p.Options());
  ExpectFiniteDifferences("dq", p, p.q, g.dq, g.mq);
  ExpectFiniteDifferences("dk", p, p.k, g.dk, g.mk);
  ExpectFiniteDifferences("dv", p, p.v, g.dv, g.mv);
  if (!p.c.forgets) return;
  const auto by_keep = [&](std::vector<double> x) {
    for (size_t n = 0; n < x.size(); ++n) x[n] /= Floats(p.keep)[n];
    return x;
  };
  ExpectFiniteDifferences("d_keep", p, p.keep, by_keep(g.d_log_keep), by_keep(g.m_log_keep));
}

// Small enough that every element can be moved.
Case SmallCase(uint64_t seed) {
  Random random(seed);
  Case c;
  c.seed = seed;
  c.batch = 2;
  c.queries = 5;
  c.keys = 5;
  c.kv_heads = 1;
  c.heads = 2;
  c.dim = 3;
  c.value_dim = 2;
  switch (seed % 5) {
    case 0:
      break;
    case 1:
      c.causal = false;
      c.keys = 4;
      break;
    case 2:
      c.keys = 7;
      break;
    case 3:
      c.query_lengths = {3, 5};
      break;
    case 4:
      c.batch = 1;
      c.causal = false;
      c.query_offsets = {0, 2, 5};
      c.key_offsets = {1, 3, 4};
      break;
  }
  c.kernel.horizon = 8;
  c.kernel.reweighting = seed % 2 == 0 ? Reweighting::kCos : Reweighting::kNone;
  c.forgets = c.causal && seed >= 5;
  return c;
}

TEST(ReferenceTest, LinearGradientsAgreeWithFiniteDifferences) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (const FeatureMap map : AllFeatureMaps()) {
      Case c = SmallCase(seed);
      c.kernel.feature_map = map;
      // Normalisers near zero have wild derivatives; this keeps those of identity away from it.
      c.mean = 2;
      CheckGradients<Linear>(c);
    }
  }
}

TEST(ReferenceTest, GradientsWithoutNormaliserAgreeWithFiniteDifferences) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Case c = SmallCase(seed);
    c.kernel.normaliser = Normaliser::kNone;
    CheckGradients<Linear>(c);
  }
}

TEST(ReferenceTest, WhatIsKeptMultipliesOnTheWay) {
  // One feature, all ones: the output is the mean of the values by what is kept of them.
  Case c = SelfAttention(4, 1);
  c.kernel.reweighting = Reweighting::kNone;
  c.kernel.normaliser = Normaliser::kNone;
  c.forgets = true;
  Problem<Linear> p(c);
  for (Tensor* x : {&p.q, &p.k, &p.v}) x->Fill([] { return 1.f; });
  for (int64_t j = 0; j < 4; ++j) p.keep.Set(0, j, 0, 0, std::vector{0.5f, 0.25f, 0.f, 0.5f}[j]);
  const auto o = reference::LinearForward(p.q.view(), p.k.view(), p.v.view(), p.Options()).o;
  EXPECT_EQ(o, (std::vector<double>{1, 1.25, 1, 1.5}));
}

TEST(ReferenceTest, AMovedNormaliserIsAConstant) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (const FeatureMap map : AllFeatureMaps()) {
      Case c = SmallCase(seed);
      c.kernel.feature_map = map;
      c.kernel.epsilon = 1e4f;
      CheckGradients<Linear>(c);
    }
  }
}

TEST(ReferenceTest, SoftmaxGradientsAgreeWithFiniteDifferences) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Case c = SmallCase(seed);
    c.scale = seed % 2 == 0 ? 0.f : 0.7f;
    CheckGradients<Softmax>(c);
  }
}

}  // namespace
}  // namespace cosformer::testing
