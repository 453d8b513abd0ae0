// Rotary embedding against its definition in double, and what makes it one: scores depend on the
// distance alone.
#include "kernels/rotary.h"

#include "support.h"

namespace cosformer::testing {
namespace {

struct RotaryCase {
  int64_t batch = 2;
  int64_t length = 5;
  int64_t heads = 3;
  int64_t dim = 8;
  int64_t first = 0;
  double base = 10000;
  bool heads_first = false;  // [batch, heads, length, dim] in memory
  int64_t gap = 0;           // floats between rows
  bool inverse = false;

  int64_t rows() const { return batch * length * heads; }
  RotaryStrides strides() const {
    const int64_t row = dim + gap;
    if (heads_first) return {heads * length * row, row, length * row};
    return {length * heads * row, heads * row, row};
  }
};

void Check(const RotaryCase& c, const std::vector<int64_t>& positions = {}) {
  const RotaryTable table(c.length, c.dim, c.base, c.first,
                          positions.empty() ? nullptr : positions.data());
  const RotaryStrides from = c.strides();
  RotaryCase dense = c;
  dense.gap = 0;
  dense.heads_first = false;
  const RotaryStrides to = dense.strides();
  Buffer x(Normal(c.rows() * (c.dim + c.gap), 1), static_cast<size_t>(c.dim) % 5);
  Buffer y(c.rows() * c.dim);
  RotaryTurn(table, x.data(), from, c.batch, c.length, c.heads, c.inverse, y.data(), to);
  std::vector<Expected> expected(y.size());
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t t = 0; t < c.length; ++t) {
      const int64_t position = positions.empty() ? c.first + t : positions[static_cast<size_t>(t)];
      for (int64_t h = 0; h < c.heads; ++h) {
        const int64_t row = b * from.batch + t * from.length + h * from.head;
        const int64_t out = b * to.batch + t * to.length + h * to.head;
        for (int64_t k = 0; k < c.dim / 2; ++k) {
          const double frequency =
              std::pow(c.base, -2.0 * static_cast<double>(k) / static_cast<double>(c.dim));
          const double angle = static_cast<double>(position) * frequency * (c.inverse ? -1 : 1);
          const double p = x[static_cast<size_t>(row + k)];
          const double q = x[static_cast<size_t>(row + k + c.dim / 2)];
          const double tolerance = 3 * kUnit * (std::abs(p) + std::abs(q));
          expected[static_cast<size_t>(out + k)] = {p * std::cos(angle) - q * std::sin(angle),
                                                    tolerance};
          expected[static_cast<size_t>(out + k + c.dim / 2)] = {
              p * std::sin(angle) + q * std::cos(angle), tolerance};
        }
      }
    }
  }
  ExpectClose(y.values(), expected, "y");

  Buffer in_place = x;
  RotaryTurn(table, in_place.data(), from, c.batch, c.length, c.heads, c.inverse, in_place.data(),
             from);
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t t = 0; t < c.length; ++t) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const int64_t row = b * from.batch + t * from.length + h * from.head;
        const int64_t out = b * to.batch + t * to.length + h * to.head;
        for (int64_t k = 0; k < c.dim + c.gap; ++k) {
          const float is = in_place[static_cast<size_t>(row + k)];
          ASSERT_EQ(is,
                    k < c.dim ? y[static_cast<size_t>(out + k)] : x[static_cast<size_t>(row + k)]);
        }
      }
    }
  }
}

class RotaryTest : public EveryTarget {};

TEST_P(RotaryTest, AgreesWithTheReferenceAtEveryDim) {
  for (int64_t dim = 2; dim <= 140; dim += 2) {
    SCOPED_TRACE(dim);
    RotaryCase c;
    c.dim = dim;
    c.length = dim % 7;
    c.first = dim % 3 == 0 ? 1000 : 0;
    c.heads_first = dim % 4 == 0;
    c.gap = dim % 5;
    c.inverse = dim % 6 == 0;
    c.base = dim % 8 == 0 ? 500.0 : 10000.0;
    Check(c);
  }
}

TEST_P(RotaryTest, FarPositionsAreAsExactAsNearOnes) {
  RotaryCase c;
  c.first = 10'000'000;
  Check(c);
}

TEST_P(RotaryTest, PackedSequencesHavePositionsOfTheirOwn) {
  RotaryCase c;
  c.length = 7;
  Check(c, {0, 1, 2, 0, 1, 40, 3});
}

INSTANTIATE_TEST_SUITE_P(Every, RotaryTest, AllTargets(), TargetOf);

TEST(RotaryPropertiesTest, TurningBackUndoesTurning) {
  const RotaryTable table(16, 64, 10000, 3);
  const RotaryStrides strides = {16 * 64, 64, 64};
  const std::vector<float> x = Normal(16 * 64, 1);
  Buffer y(x, 0);
  RotaryTurn(table, y.data(), strides, 1, 16, 1, false, y.data(), strides);
  EXPECT_FALSE(SameBits(y.values(), x));
  RotaryTurn(table, y.data(), strides, 1, 16, 1, true, y.data(), strides);
  for (size_t i = 0; i < x.size(); ++i) {
    // Twice 3 units of each of the pair, whose length turning keeps; below 5 deviations.
    ASSERT_NEAR(y[i], x[i], 2 * 3 * kUnit * 2 * 5);
  }
}

TEST(RotaryPropertiesTest, ScoresDependOnTheDistanceAlone) {
  constexpr int64_t kDim = 32;
  const std::vector<float> q = Normal(kDim, 1);
  const std::vector<float> k = Normal(kDim, 2);
  const RotaryTable table(200, kDim);
  const RotaryStrides strides = {kDim, kDim, kDim};
  const auto score = [&](int64_t at_q, int64_t at_k) {
    Buffer a(q, 0);
    Buffer b(k, 0);
    RotaryTurn(table, a.data(), strides, 1, 1, 1, false, a.data(), strides, at_q);
    RotaryTurn(table, b.data(), strides, 1, 1, 1, false, b.data(), strides, at_k);
    double sum = 0;
    for (size_t c = 0; c < kDim; ++c) sum += static_cast<double>(a[c]) * b[c];
    return sum;
  };
  double sizes = 0;
  for (size_t c = 0; c < kDim; ++c) sizes += 2 * std::abs(q[c] * k[c]) + 1;
  EXPECT_NEAR(score(17, 5), score(167, 155), 12 * kUnit * sizes);
  EXPECT_GT(std::abs(score(17, 5) - score(17, 6)), 1e-3);
}

TEST(RotaryThreadsTest, ThreadsDoNotChangeTheResult) {
  constexpr int64_t kLength = 300;
  constexpr int64_t kDim = 66;
  const RotaryStrides strides = {kLength * 4 * kDim, 4 * kDim, kDim};
  const std::vector<float> x = Normal(3 * kLength * 4 * kDim, 1);
  const auto run = [&](int threads) {
    const RotaryTable table(kLength, kDim, 10000, 0, nullptr, threads);
    Buffer y(static_cast<int64_t>(x.size()));
    RotaryTurn(table, x.data(), strides, 3, kLength, 4, false, y.data(), strides, 0, threads);
    return y;
  };
  const Buffer one = run(1);
  for (const int threads : {0, 2, 3}) {
    EXPECT_TRUE(SameBits(run(threads).values(), one.values())) << threads;
  }
}

}  // namespace
}  // namespace cosformer::testing
