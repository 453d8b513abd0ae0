// What is kept is a function of seed and index alone, and looks random.
#include "kernels/dropout.h"

#include "support.h"

namespace cosformer::testing {
namespace {

constexpr int64_t kMany = kSanitized ? 200'000 : 1'000'000;

class DropoutTest : public EveryTarget {};

// The number kept of kMany ones, by the kernel.
int64_t Kept(const Dropout& dropout, int64_t n = kMany) {
  std::vector<float> x(static_cast<size_t>(n), 1.0f);
  DropoutForward(x.data(), n, dropout, x.data());
  int64_t kept = 0;
  for (const float v : x) kept += v != 0;
  return kept;
}

// Five standard deviations of the number of successes.
double FiveSigma(double n, double probability) {
  return 5 * std::sqrt(n * probability * (1 - probability));
}

TEST_P(DropoutTest, ScalesWhatItKeepsAndZeroesTheRest) {
  for (const int64_t n : {0, 1, 3, 4, 15, 16, 17, 63, 64, 65, 1000}) {
    for (const float p : {0.0f, 0.1f, 0.5f, 0.9f}) {
      const Dropout dropout = {p, static_cast<uint64_t>(n) + 7};
      const std::vector<float> x = Normal(n, 1);
      Buffer y(n, static_cast<size_t>(n) % 5);
      DropoutForward(x.data(), n, dropout, y.data());
      for (int64_t i = 0; i < n; ++i) {
        const size_t at = static_cast<size_t>(i);
        const double expected = DropoutKeeps(dropout, i) ? x[at] / (1.0 - p) : 0.0;
        ASSERT_NEAR(y[at], expected, 3 * kUnit * std::abs(expected)) << i << " of " << n;
      }
    }
  }
}

TEST_P(DropoutTest, KeepsAllWithoutProbability) {
  const std::vector<float> x = Normal(1000, 2);
  Buffer y(1000);
  DropoutForward(x.data(), 1000, {0.0f, 9}, y.data());
  EXPECT_TRUE(SameBits(x, y.values()));
}

TEST_P(DropoutTest, ADroppedNaNIsZero) {
  const std::vector<float> x(1000, kNaN);
  Buffer y(1000);
  const Dropout dropout = {0.5f, 3};
  DropoutForward(x.data(), 1000, dropout, y.data());
  for (size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(std::isnan(y[i]), DropoutKeeps(dropout, static_cast<int64_t>(i)));
    if (!std::isnan(y[i])) {
      ASSERT_EQ(y[i], 0.0f);
    }
  }
}

TEST_P(DropoutTest, APartIsDroppedAsWithTheWhole) {
  const std::vector<float> x(500, 1.0f);
  Buffer whole(500);
  DropoutForward(x.data(), 500, {0.4f, 11}, whole.data());
  for (const int64_t first : {1, 7, 16, 100, 499}) {
    Buffer part(500 - first);
    DropoutForward(x.data() + first, 500 - first, {0.4f, 11, first}, part.data());
    EXPECT_TRUE(SameBits(part.values(), whole.values().subspan(static_cast<size_t>(first))));
  }
}

// The mask changes its keys at multiples of 2^32; vectors may lie across.
TEST_P(DropoutTest, LargeIndicesAreCountedInFull) {
  const std::vector<float> x(400, 1.0f);
  for (const int64_t boundary : {int64_t{1} << 32, int64_t{5} << 32, int64_t{1} << 40}) {
    for (int64_t before = 180; before < 220; ++before) {
      const Dropout dropout = {0.3f, 5, boundary - before};
      Buffer y(400);
      DropoutForward(x.data(), 400, dropout, y.data());
      for (int64_t i = 0; i < 400; ++i) {
        ASSERT_EQ(y[static_cast<size_t>(i)] != 0, DropoutKeeps(dropout, i)) << before << " " << i;
      }
    }
  }
}

TEST_P(DropoutTest, TheKeepRateIsAsAsked) {
  for (const float p : {0.001f, 0.1f, 0.25f, 0.5f, 0.9f, 0.999f}) {
    for (const int64_t first : {int64_t{0}, int64_t{1} << 33, (int64_t{1} << 40) - kMany}) {
      EXPECT_NEAR(static_cast<double>(Kept({p, 1234, first})), (1.0 - p) * kMany,
                  FiveSigma(kMany, p))
          << p << " from " << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DropoutTest, AllTargets(), TargetOf);

// Pairs of decisions that are to be independent agree on being kept as often as chance has it.
template <class Other>
void ExpectIndependent(const Dropout& dropout, const Other& other, const std::string& what) {
  int64_t both = 0;
  for (int64_t i = 0; i < kMany; ++i) both += DropoutKeeps(dropout, i) && other(i);
  const double keep = 1.0 - dropout.p;
  // Pairs overlap, so their count varies by up to twice what that of as many trials does.
  EXPECT_NEAR(static_cast<double>(both), keep * keep * kMany, 2 * FiveSigma(kMany, keep * keep))
      << what;
}

TEST(DropoutHashTest, NeighboursAreIndependent) {
  for (const float p : {0.1f, 0.5f}) {
    const Dropout dropout = {p, 42};
    for (const int64_t distance : {1, 2, 3, 4, 8, 16, 64, 512, 1024, 4096, 65536, 1 << 20}) {
      ExpectIndependent(
          dropout, [&](int64_t i) { return DropoutKeeps(dropout, i + distance); },
          "distance " + std::to_string(distance));
    }
  }
}

TEST(DropoutHashTest, SeedsAreIndependentAtEveryShift) {
  for (const uint64_t other_seed :
       {uint64_t{43}, uint64_t{42} ^ (uint64_t{1} << 32), uint64_t{42} ^ (uint64_t{1} << 63)}) {
    for (const int64_t shift : {0, 1, 2, 64}) {
      const Dropout other = {0.5f, other_seed};
      ExpectIndependent(
          {0.5f, 42}, [&](int64_t i) { return DropoutKeeps(other, i + shift); },
          "seed " + std::to_string(other_seed) + " shift " + std::to_string(shift));
    }
  }
}

TEST(DropoutHashTest, HighHalvesOfTheIndexAreIndependent) {
  const Dropout dropout = {0.5f, 42};
  for (const int64_t high : {1, 2, 3, 255}) {
    ExpectIndependent(
        dropout, [&](int64_t i) { return DropoutKeeps(dropout, i + (high << 32)); }, "high");
  }
}

// Counts of runs of 8 decisions against the uniform distribution over 256 patterns.
TEST(DropoutHashTest, PatternsOfEightAreEquallyFrequent) {
  for (const uint64_t seed : {0u, 1u, 2u, 1000u}) {
    std::vector<double> counts(256);
    for (int64_t i = 0; i < kMany / 8; ++i) {
      size_t pattern = 0;
      for (int64_t k = 0; k < 8; ++k) {
        pattern = pattern * 2 + DropoutKeeps({0.5f, seed}, i * 8 + k);
      }
      ++counts[pattern];
    }
    const double expected = static_cast<double>(kMany / 8) / 256;
    double chi_square = 0;
    for (const double c : counts) chi_square += (c - expected) * (c - expected) / expected;
    // Mean 255, variance 510.
    EXPECT_NEAR(chi_square, 255, 5 * std::sqrt(510.0)) << seed;
  }
}

TEST(DropoutThreadsTest, ThreadsDoNotChangeTheResult) {
  constexpr int64_t kCount = 300'001;
  const std::vector<float> x = Normal(kCount, 3);
  Buffer one(kCount);
  DropoutForward(x.data(), kCount, {0.2f, 8}, one.data(), 1);
  for (const int threads : {0, 2, 3}) {
    Buffer y(kCount);
    DropoutForward(x.data(), kCount, {0.2f, 8}, y.data(), threads);
    EXPECT_TRUE(SameBits(one.values(), y.values())) << threads;
  }
}

}  // namespace
}  // namespace cosformer::testing
