// The median by hand; intervals against values worked out by hand, and against what they promise:
// to hold the truth in 95 of 100 cases.
#include "report/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace cosformer::report {
namespace {

TEST(StatisticsTest, TheMedianIsInTheMiddleAndNotMovedByAnOutlier) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({5, 1, 1000}), 5);
  EXPECT_EQ(Median({4, 1, 2, 1000}), 3);
}

TEST(StatisticsTest, WilsonAgreesWithTheTextbook) {
  // 81 of 263, from Newcombe (1998), method 3.
  const Interval many = Wilson(81, 263, 1.959964);
  EXPECT_NEAR(many.low, 0.2553, 5e-5);
  EXPECT_NEAR(many.high, 0.3662, 5e-5);
  const Interval few = Wilson(15, 148, 1.959964);
  EXPECT_NEAR(few.low, 0.0624, 5e-5);
  EXPECT_NEAR(few.high, 0.1605, 5e-5);
  const Interval one = Wilson(1, 29, 1.959964);
  EXPECT_NEAR(one.low, 0.0061, 5e-5);
  EXPECT_NEAR(one.high, 0.1718, 5e-5);
}

TEST(StatisticsTest, WilsonKeepsToItsEnds) {
  EXPECT_EQ(Wilson(0, 0).low, 0);
  EXPECT_EQ(Wilson(0, 0).high, 1);
  for (const int64_t trials : {1, 2, 3, 10, 1000, 1'000'000}) {
    EXPECT_EQ(Wilson(0, trials).low, 0);
    EXPECT_EQ(Wilson(trials, trials).high, 1);
    EXPECT_GT(Wilson(0, trials).high, 0);
    EXPECT_LT(Wilson(trials, trials).low, 1);
    EXPECT_NEAR(Wilson(0, trials).high, 1 - Wilson(trials, trials).low, 1e-12);
  }
}

TEST(StatisticsTest, WilsonHoldsTheTruthAsOftenAsItSays) {
  std::mt19937_64 random(3);
  for (const double truth : {0.1, 0.5, 0.9}) {
    std::binomial_distribution<int64_t> draw(200, truth);
    int held = 0;
    constexpr int kCases = 4000;
    for (int i = 0; i < kCases; ++i) {
      const Interval interval = Wilson(draw(random), 200);
      held += interval.low <= truth && truth <= interval.high;
    }
    // The draws are whole numbers, so the level is met but for some 2 %.
    EXPECT_NEAR(held / static_cast<double>(kCases), 0.95, 0.025);
  }
}

TEST(StatisticsTest, WithEqualCountsItIsTheIntervalOfAPlainMean) {
  const std::vector<double> sums = {2, 4, 9}, counts = {2, 2, 2};
  // Means 1, 2, 4.5: mean 2.5, variance (2.25 + 0.25 + 4) / 2, of the mean a third of it.
  const double half = 2 * std::sqrt(3.25 / 3);
  const Interval interval = OfMean(sums, counts, 2);
  EXPECT_NEAR(interval.low, 2.5 - half, 1e-12);
  EXPECT_NEAR(interval.high, 2.5 + half, 1e-12);
}

TEST(StatisticsTest, AMeanThatNeverChangesIsCertain) {
  const std::vector<double> sums = {3, 30, 12}, counts = {1, 10, 4};
  EXPECT_NEAR(OfMean(sums, counts).low, 3, 1e-12);
  EXPECT_NEAR(OfMean(sums, counts).high, 3, 1e-12);
}

TEST(StatisticsTest, FewerThanTwoBlocksSayNothing) {
  const std::vector<double> one = {3}, none, zeros = {0, 0};
  for (const Interval interval : {OfMean(one, one), OfMean(none, none), OfMean(zeros, zeros)}) {
    EXPECT_TRUE(std::isnan(interval.low));
    EXPECT_TRUE(std::isnan(interval.high));
  }
}

TEST(StatisticsTest, AMeanOverUnequalBlocksIsHeldAsOftenAsItSays) {
  // Blocks of 1 to 99 tokens whose losses depend on the block and on its length.
  std::mt19937_64 random(5);
  std::uniform_int_distribution<int> length(1, 99);
  std::normal_distribution<double> noise;
  constexpr int kCases = 3000, kBlocks = 60;
  // E[n (3 + n / 100)] / E[n], with E[n] = 50 and E[n²] = 99 · 100 · 199 / 6 / 99.
  const double truth = 3 + (100.0 * 199 / 6) / 50 / 100;
  int held = 0;
  for (int i = 0; i < kCases; ++i) {
    std::vector<double> sums, counts;
    for (int block = 0; block < kBlocks; ++block) {
      const int n = length(random);
      counts.push_back(n);
      sums.push_back(n * (3 + n / 100.0 + noise(random)));
    }
    const Interval interval = OfMean(sums, counts);
    held += interval.low <= truth && truth <= interval.high;
  }
  // 60 blocks and not infinitely many cost about 1 %.
  EXPECT_NEAR(held / static_cast<double>(kCases), 0.945, 0.015);
}

}  // namespace
}  // namespace cosformer::report
