// Runs of logits against the definition in double.
#include "kernels/logit_runs.h"

#include <algorithm>

#include "support.h"

namespace cosformer::testing {
namespace {

// Below this the kernel takes an exponential for 0: exp(-87).
constexpr double kDropped = 1.7e-38;

void Check(const Buffer& logits, float scale) {
  const auto n = static_cast<int64_t>(logits.size());
  SCOPED_TRACE(std::to_string(n) + " logits, scale " + std::to_string(scale));
  Buffer largest(RunsOf(n));
  Buffer sums(RunsOf(n));
  Buffer input = logits;
  ScanLogitRuns(input.data(), n, scale, largest.data(), sums.data());
  Buffer alone(RunsOf(n));
  ScanLogitRuns(input.data(), n, scale, alone.data(), nullptr);
  EXPECT_TRUE(SameBits(alone.values(), largest.values()));
  EXPECT_TRUE(SameBits(input.values(), logits.values()));
  std::vector<Expected> expected;
  for (int64_t run = 0; run < RunsOf(n); ++run) {
    const int64_t count = std::min(kLogitRun, n - run * kLogitRun);
    const std::span<const float> x =
        logits.values().subspan(static_cast<size_t>(run * kLogitRun), static_cast<size_t>(count));
    const double top = *std::max_element(x.begin(), x.end());
    EXPECT_EQ(largest[static_cast<size_t>(run)], static_cast<float>(top));
    // The difference and its product with the scale are rounded once each, which the exponential
    // multiplies by the size of its argument; it has two units of its own.
    double sum = 0;
    double units = 0;
    for (const float v : x) {
      const double a = scale * (top - v);
      sum += std::exp(-a);
      units += std::exp(-a) * (2 * a + 2);
    }
    units += sum * SumDepth(count);
    expected.push_back({sum, kUnit * units + static_cast<double>(count) * kDropped});
  }
  ExpectClose(sums.values(), expected, "sum");
}

class LogitRunsTest : public EveryTarget {};

TEST_P(LogitRunsTest, AgreeWithTheDefinitionAtEveryLength) {
  for (const int64_t n : Widths()) {
    const float scale = n % 3 == 0 ? 1.0f : n % 3 == 1 ? 0.7f : 12.5f;
    Check(Buffer(Normal(n, static_cast<uint64_t>(n), 3, n % 5 == 0 ? 1e4 : 0), n % 6), scale);
  }
  for (const int64_t n : {1023, 1024, 1025, 50'257}) {
    for (const float scale : {1e-6f, 1.0f, 1e6f}) Check(Buffer(Normal(n, 1, 5), 3), scale);
  }
}

TEST_P(LogitRunsTest, NoLogitsHaveNoRuns) {
  EXPECT_EQ(RunsOf(0), 0);
  ScanLogitRuns(nullptr, 0, 1, nullptr, nullptr);
}

TEST_P(LogitRunsTest, MinusInfinityHasNoPart) {
  std::vector<float> x = Normal(3 * kLogitRun, 1, 3);
  for (size_t i = 0; i < x.size(); i += 3) x[i] = -kInfinity;
  std::fill_n(x.begin() + kLogitRun, kLogitRun, -kInfinity);
  Buffer largest(3);
  Buffer sums(3);
  ScanLogitRuns(x.data(), 3 * kLogitRun, 0.5f, largest.data(), sums.data());
  EXPECT_EQ(largest[1], -kInfinity);
  EXPECT_EQ(sums[1], 0.0f);
  for (const size_t run : {0u, 2u}) {
    double expected = 0;
    for (size_t i = 0; i < kLogitRun; ++i) {
      expected += std::exp(0.5 * (x[run * kLogitRun + i] - largest[run]));
    }
    // Terms are at most 1, differences at most 20: 12 units each at most, and the sum's.
    EXPECT_NEAR(sums[run], expected, kUnit * expected * (12 + SumDepth(kLogitRun)));
  }
}

TEST_P(LogitRunsTest, WhatIsNoNumberReachesTheSumOfItsRunAlone) {
  for (const float bad : {kNaN, -kNaN, kInfinity}) {
    for (const float others : {1.0f, -kInfinity}) {
      for (size_t at = 0; at < 70; ++at) {
        std::vector<float> x(kLogitRun + 70, others);
        x[kLogitRun + at] = bad;
        Buffer largest(2);
        Buffer sums(2);
        ScanLogitRuns(x.data(), kLogitRun + 70, 1, largest.data(), sums.data());
        EXPECT_TRUE(std::isnan(sums[1])) << bad << " at " << at << " among " << others;
        EXPECT_EQ(sums[0], others == 1.0f ? 1024.0f : 0.0f);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, LogitRunsTest, AllTargets(), TargetOf);

}  // namespace
}  // namespace cosformer::testing
