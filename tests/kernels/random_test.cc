#include "kernels/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>

namespace cosformer {
namespace {

TEST(Random, TheNumbersOfASeedNeverChange) {
  Random random(1, 2);
  EXPECT_EQ(random.Next(), 4472672866095287216u);
  EXPECT_EQ(random.Next(), 18350930453655145887u);
  EXPECT_EQ(random.Below(1000), 634u);
  EXPECT_EQ(random.Uniform(), 4693948159010667.0 * 0x1p-53);
}

TEST(Random, SeedsAndStreamsDiffer) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (uint64_t stream = 0; stream < 20; ++stream) {
      Random random(seed, stream);
      for (int i = 0; i < 20; ++i) seen.insert(random.Next());
    }
  }
  EXPECT_EQ(seen.size(), 8000u);
}

// The first number of every stream decides much of an example, so it has to be as random as the
// later ones: both bits of the same place in neighbouring streams agree half of the time.
TEST(Random, NeighbouringStreamsShareNoBits) {
  constexpr int kStreams = 4000;
  std::array<int, 64> agree{};
  for (uint64_t stream = 0; stream < kStreams; ++stream) {
    const uint64_t differ = Random(7, stream).Next() ^ Random(7, stream + 1).Next();
    for (size_t bit = 0; bit < 64; ++bit) agree[bit] += (differ >> bit & 1) == 0;
  }
  // Five standard deviations.
  for (const int count : agree) EXPECT_NEAR(count, kStreams / 2, 5 * std::sqrt(kStreams) / 2);
}

TEST(Random, BelowIsUniformAndNeverReachesItsBound) {
  Random random(3);
  for (const uint64_t n : {1, 2, 3, 7, 10}) {
    constexpr int kDraws = 20000;
    std::array<int, 10> counts{};
    for (int i = 0; i < kDraws; ++i) {
      const uint64_t x = random.Below(n);
      ASSERT_LT(x, n);
      ++counts[x];
    }
    const double p = 1.0 / static_cast<double>(n);
    for (uint64_t x = 0; x < n; ++x) {
      EXPECT_NEAR(counts[x], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1e-9);
    }
  }
}

// With n = 3/4 of 2^64, a third of the results would come twice as often without rejection.
TEST(Random, BelowHasNoBiasForLargeBounds) {
  Random random(4);
  constexpr uint64_t kQuarter = uint64_t{1} << 62;
  constexpr int kDraws = 30000;
  // The surplus goes to every third number, since the products step over n by thirds.
  std::array<int, 3> counts{};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t x = random.Below(3 * kQuarter);
    ASSERT_LT(x, 3 * kQuarter);
    ++counts[x % 3];
  }
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 3, 5 * std::sqrt(kDraws * 2 / 9.0));
}

TEST(Random, UniformFillsTheUnitInterval) {
  Random random(5);
  constexpr int kDraws = 20000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.Uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kDraws));
}

}  // namespace
}  // namespace cosformer
