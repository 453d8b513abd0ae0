#include "cosformer/sampling.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/random.h"
#include "naive_sampling.h"

namespace cosformer::testing {
namespace {

// Bits of a set of options that differ from their defaults.
constexpr int kTemperature = 1, kTopK = 2, kTopP = 4, kMinP = 8, kPenalty = 16, kBias = 32;
constexpr int kFeatureSets = 64;

SamplingOptions RandomOptions(int features, int64_t vocabulary, std::mt19937_64& random) {
  const auto uniform = [&](double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random);
  };
  SamplingOptions options;
  options.seed = random();
  if (features & kTemperature) options.temperature = std::exp(uniform(-3, 3));
  if (features & kTopK) options.top_k = 1 + static_cast<int64_t>(random() % 60);
  if (features & kTopP) options.top_p = random() % 8 == 0 ? 0 : uniform(0, 1);
  if (features & kMinP) options.min_p = random() % 8 == 0 ? 1 : std::exp(uniform(-12, 0));
  if (features & kPenalty) {
    options.repetition_penalty = uniform(0.5, 2);
    options.repetition_window = static_cast<int64_t>(random() % 12);
  }
  if (features & kBias) {
    for (int32_t token = static_cast<int32_t>(random() % 5); token < vocabulary;
         token += 1 + static_cast<int32_t>(random() % 50)) {
      // One is left that may come.
      const bool never = random() % 3 == 0 && token != vocabulary / 2;
      options.logit_bias.push_back(
          {token, never ? -kInfinity : static_cast<float>(uniform(-4, 4))});
    }
    std::shuffle(options.logit_bias.begin(), options.logit_bias.end(), random);
  }
  return options;
}

// Some equal, some -infinity; not the one in the middle.
Logits RandomLogits(int64_t vocabulary, std::mt19937_64& random) {
  const double deviation = std::exp(std::uniform_real_distribution<double>(-2, 2.5)(random));
  Logits logits = NormalLogits(vocabulary, random, deviation);
  if (random() % 3 == 0) {
    for (float& x : logits) x = std::round(x * 2) / 2;
  }
  if (random() % 3 == 0) {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (random() % 4 == 0 && i != logits.size() / 2) logits[i] = -kInfinity;
    }
  }
  return logits;
}

// The log-sum of the model's own distribution is in float within runs of 1024.
double LogTolerance(const Logits& logits) {
  const double log_sum = NaiveLogSum(logits);
  const double largest = *std::max_element(logits.begin(), logits.end());
  double units = 1024.0 / 4 + 5 + 2;
  for (const float x : logits) {
    if (x > -kInfinity) units += std::exp(x - log_sum) * (largest - x);
  }
  return kUnit * units + 1e-37 * static_cast<double>(logits.size()) +
         8 * kDouble * std::abs(log_sum);
}

// Draws some tokens and checks each against the twin. Returns how many could not be told apart from
// a neighbour.
int CheckDraws(const SamplingOptions& options, int64_t vocabulary, int draws,
               std::mt19937_64& random, SamplingWorkspace& workspace) {
  Sampler sampler(options, vocabulary);
  Tokens text;
  for (size_t i = random() % 30; i > 0; --i) {
    text.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary)));
  }
  sampler.Observe(text);
  int ambiguous = 0;
  for (int t = 0; t < draws; ++t) {
    const Logits logits = RandomLogits(vocabulary, random);
    const auto asked = static_cast<int64_t>(random() % 4 == 0 ? random() % 70 : 0);
    const SampledToken got = sampler.Next(logits, workspace, asked);
    EXPECT_TRUE(got.token >= 0 && got.token < vocabulary);
    const auto token = static_cast<size_t>(got.token);

    const double log_sum = NaiveLogSum(logits);
    const double log_tolerance = LogTolerance(logits);
    EXPECT_NEAR(got.log_probability, logits[token] - log_sum, log_tolerance);
    const Tokens order = NaiveOrder(logits);
    size_t possible = 0;
    while (possible < order.size() && logits[static_cast<size_t>(order[possible])] > -kInfinity)
      ++possible;
    EXPECT_EQ(got.likeliest.size(), std::min(possible, static_cast<size_t>(asked)));
    for (size_t i = 0; i < got.likeliest.size(); ++i) {
      EXPECT_EQ(got.likeliest[i].token, order[i]);
      EXPECT_NEAR(got.likeliest[i].log_probability, logits[static_cast<size_t>(order[i])] - log_sum,
                  log_tolerance);
    }

    const Logits adjusted = NaiveAdjusted(logits, options, text);
    text.push_back(got.token);
    const NaiveDistribution naive = NaiveProbabilities(adjusted, options);
    if (naive.ambiguous) {
      ++ambiguous;
      continue;
    }
    EXPECT_GT(naive.probability[token], 0.0) << "draw " << t << " of token " << token;
    const double below =
        std::accumulate(naive.probability.begin(), naive.probability.begin() + got.token, 0.0);
    const double u = Random(options.seed, static_cast<uint64_t>(t)).Uniform();
    EXPECT_GE(u, below - naive.tolerance) << "draw " << t << " of token " << token;
    EXPECT_LT(u, below + naive.probability[token] + naive.tolerance) << "draw " << t;
  }
  return ambiguous;
}

class SamplerTwinTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(SamplerTwinTest, EveryDrawFallsIntoTheShareThatTheTwinGivesIt) {
  const int64_t vocabulary = GetParam();
  std::mt19937_64 random(static_cast<uint64_t>(vocabulary));
  SamplingWorkspace workspace;
  constexpr int kRounds = 6;
  constexpr int kDraws = 12;
  int ambiguous = 0;
  for (int features = 0; features < kFeatureSets; ++features) {
    for (int round = 0; round < kRounds; ++round) {
      SCOPED_TRACE(fmt::format("features {}, round {}", features, round));
      const SamplingOptions options = RandomOptions(features, vocabulary, random);
      ambiguous += CheckDraws(options, vocabulary, kDraws, random, workspace);
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_LT(ambiguous, kFeatureSets * kRounds * kDraws / 50);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, SamplerTwinTest,
                         ::testing::Values(1, 2, 33, 1000, 1024, 2100));

TEST(Sampler, TheLikeliestIsTakenAtTemperatureZero) {
  std::mt19937_64 random(1);
  SamplingWorkspace workspace;
  for (const int64_t vocabulary : {1, 2, 33, 1000, 1025, 5000}) {
    for (const int features : {0, kTopK | kTopP | kMinP, kPenalty, kBias, kPenalty | kBias}) {
      SamplingOptions options = RandomOptions(features, vocabulary, random);
      options.temperature = 0;
      Sampler sampler(options, vocabulary);
      Tokens text;
      for (int t = 0; t < 20; ++t) {
        const Logits logits = RandomLogits(vocabulary, random);
        const SampledToken got = sampler.Next(logits, workspace);
        ASSERT_EQ(got.token, NaiveOrder(NaiveAdjusted(logits, options, text))[0]);
        ASSERT_NEAR(got.log_probability,
                    logits[static_cast<size_t>(got.token)] - NaiveLogSum(logits),
                    LogTolerance(logits));
        text.push_back(got.token);
      }
    }
  }
}

TEST(Sampler, OfEqualLogitsTheLowerTokensAreTheLikelier) {
  SamplingWorkspace workspace;
  constexpr int64_t kVocabulary = 3000;
  for (const int32_t first : {0, 5, 1023, 1024, 2500}) {
    Logits logits(kVocabulary, 0.5f);
    const std::set<int32_t> equal = {first, 2600, 2601, 2999};
    for (const int32_t token : equal) logits[static_cast<size_t>(token)] = 4;
    Sampler greedy({.temperature = 0}, kVocabulary);
    const SampledToken got = greedy.Next(logits, workspace, 6);
    EXPECT_EQ(got.token, first);
    Tokens likeliest;
    for (const ScoredToken& scored : got.likeliest) likeliest.push_back(scored.token);
    const Tokens others = first == 0 ? Tokens{1, 2} : Tokens{0, 1};
    EXPECT_EQ(likeliest, (Tokens{first, 2600, 2601, 2999, others[0], others[1]}));

    std::set<int32_t> drawn;
    Sampler three({.temperature = 100, .top_k = 3}, kVocabulary);
    for (int t = 0; t < 200; ++t) drawn.insert(three.Next(logits, workspace).token);
    EXPECT_EQ(drawn, (std::set<int32_t>{first, 2600, 2601}));
    // A third of four is more than one of them.
    drawn.clear();
    Sampler share({.temperature = 1e-6, .top_p = 0.3}, kVocabulary);
    for (int t = 0; t < 200; ++t) drawn.insert(share.Next(logits, workspace).token);
    EXPECT_EQ(drawn, (std::set<int32_t>{first, 2600}));
    drawn.clear();
    Sampler most({.temperature = 100, .min_p = 1}, kVocabulary);
    for (int t = 0; t < 200; ++t) drawn.insert(most.Next(logits, workspace).token);
    EXPECT_EQ(drawn, equal);
  }
}

TEST(Sampler, BoundsThatAreMetExactlyAreReached) {
  SamplingWorkspace workspace;
  const auto drawn = [&](const SamplingOptions& options, const Logits& logits) {
    Sampler sampler(options, static_cast<int64_t>(logits.size()));
    std::set<int32_t> tokens;
    for (int t = 0; t < 200; ++t) tokens.insert(sampler.Next(logits, workspace).token);
    return tokens;
  };
  const std::set<int32_t> two = {0, 1};
  EXPECT_EQ(drawn({.min_p = std::exp(-1.0)}, {1, 0, -0.5f}), two);
  EXPECT_EQ(drawn({.top_p = 0.5}, {1, 1, 1, 1}), two);
  // Different logits whose weights are 1 to the last digit.
  EXPECT_EQ(drawn({.temperature = 1e6, .top_p = 0.5}, {2e-12f, 2e-12f, 0, 0}), two);
  EXPECT_EQ(drawn({.temperature = 1e6, .top_k = 4, .top_p = 0.5}, {2e-12f, 2e-12f, 0, 0, -9}), two);
}

// Pearson's statistic, tokens with fewer than 5 expected taken together, has the distribution chi
// square, which exceeds f + 2 sqrt(f x) + 2 x with probability exp(-x) at most (Laurent, Massart
// 2000).
void CheckFrequencies(const SamplingOptions& options, const Logits& logits) {
  constexpr int kDraws = 20'000;
  Sampler sampler(options, static_cast<int64_t>(logits.size()));
  SamplingWorkspace workspace;
  std::vector<int> counts(logits.size());
  for (int t = 0; t < kDraws; ++t) {
    ++counts[static_cast<size_t>(sampler.Next(logits, workspace).token)];
  }
  const NaiveDistribution naive = NaiveProbabilities(logits, options);
  ASSERT_FALSE(naive.ambiguous);
  double statistic = 0;
  double freedom = -1;
  double rare = 0;
  double rare_count = 0;
  const auto add = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++freedom;
  };
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = kDraws * naive.probability[i];
    ASSERT_TRUE(expected > 0 || counts[i] == 0) << i;
    if (expected >= 5) {
      add(counts[i], expected);
    } else {
      rare += expected;
      rare_count += counts[i];
    }
  }
  if (rare >= 5) add(rare_count, rare);
  ASSERT_GE(freedom, 2);
  const double x = std::log(1e6);
  EXPECT_LT(statistic, freedom + 2 * std::sqrt(freedom * x) + 2 * x) << freedom;
}

TEST(Sampler, FrequenciesAreThoseOfTheDistribution) {
  std::mt19937_64 random(3);
  const Logits few = NormalLogits(33, random, 2);
  const Logits many = NormalLogits(3000, random, 3);
  for (const Logits& logits : {few, many}) {
    for (const SamplingOptions& options :
         {SamplingOptions{.seed = 1}, SamplingOptions{.temperature = 0.6, .seed = 2},
          SamplingOptions{.temperature = 1.7, .seed = 3}, SamplingOptions{.top_k = 10, .seed = 4},
          SamplingOptions{.top_p = 0.8, .seed = 5}, SamplingOptions{.min_p = 0.02, .seed = 6},
          SamplingOptions{
              .temperature = 1.3, .top_k = 12, .top_p = 0.9, .min_p = 0.05, .seed = 7}}) {
      SCOPED_TRACE(fmt::format("{} tokens, seed {}", logits.size(), options.seed));
      CheckFrequencies(options, logits);
    }
  }
}

// What else is drawn in between, and in which workspace, makes no difference.
TEST(Sampler, TheSameSeedGivesTheSameTokensWhateverElseIsDrawn) {
  std::mt19937_64 random(4);
  const int64_t vocabulary = 2000;
  SamplingOptions options = RandomOptions(kFeatureSets - 1, vocabulary, random);
  options.top_k = 50, options.top_p = 0.9, options.min_p = 0.01;
  std::vector<Logits> steps;
  for (int t = 0; t < 50; ++t) steps.push_back(NormalLogits(vocabulary, random));
  Tokens alone;
  Sampler first(options, vocabulary);
  SamplingWorkspace own;
  for (const Logits& logits : steps) alone.push_back(first.Next(logits, own).token);

  Tokens among;
  Sampler second(options, vocabulary);
  SamplingWorkspace shared;
  Sampler others[] = {Sampler({.seed = 8}, 5000), Sampler({.top_p = 0.5, .seed = 9}, 70)};
  for (const Logits& logits : steps) {
    for (Sampler& other : others) {
      other.Next(NormalLogits(&other == others ? 5000 : 70, random), shared, 40);
    }
    among.push_back(second.Next(logits, shared, 10).token);
  }
  EXPECT_EQ(among, alone);

  options.seed ^= 1;
  Sampler third(options, vocabulary);
  Tokens different;
  for (const Logits& logits : steps) different.push_back(third.Next(logits, own).token);
  EXPECT_NE(different, alone);
}

TEST(Sampler, TheRandomNumberIsThatOfTheSeedAndTheDrawAlone) {
  std::mt19937_64 random(5);
  SamplingWorkspace workspace;
  const Logits equal(1000, 0.0f);
  Sampler plain({.seed = 77}, 1000);
  for (int t = 0; t < 20; ++t) plain.Next(equal, workspace);
  // Greedy steps, filters and other logits before it do not count.
  Sampler other({.top_k = 3, .seed = 77}, 1000);
  for (int t = 0; t < 20; ++t) other.Next(NormalLogits(1000, random), workspace, t);
  const double u = Random(77, 20).Uniform();
  EXPECT_EQ(plain.Next(equal, workspace).token, static_cast<int32_t>(u * 1000));
  EXPECT_EQ(other.Next(equal, workspace).token, static_cast<int32_t>(u * 3));
  // The texts of a seed must not change from one version to the next.
  Sampler fixed({.seed = 1}, 1000);
  Tokens tokens;
  for (int t = 0; t < 6; ++t) tokens.push_back(fixed.Next(equal, workspace).token);
  EXPECT_EQ(tokens, (Tokens{693, 620, 242, 789, 465, 991}));
}

TEST(Sampler, ACopyGoesOnAsTheOriginalWould) {
  std::mt19937_64 random(6);
  const int64_t vocabulary = 50;
  SamplingWorkspace workspace;
  Sampler original({.repetition_penalty = 3, .repetition_window = 5, .seed = 4}, vocabulary);
  std::vector<Logits> steps;
  for (int t = 0; t < 40; ++t) steps.push_back(NormalLogits(vocabulary, random));
  for (int t = 0; t < 20; ++t) original.Next(steps[static_cast<size_t>(t)], workspace);
  Sampler copy = original;
  Tokens tokens;
  for (size_t t = 20; t < 40; ++t) tokens.push_back(original.Next(steps[t], workspace).token);
  for (size_t t = 20; t < 40; ++t) EXPECT_EQ(copy.Next(steps[t], workspace).token, tokens[t - 20]);
}

TEST(Sampler, WhatCannotComeNeverComes) {
  SamplingWorkspace workspace;
  Logits logits(2100, -kInfinity);
  const std::set<int32_t> possible = {7, 1500, 1501, 2099};
  for (const int32_t token : possible) logits[static_cast<size_t>(token)] = -2;
  for (SamplingOptions options :
       {SamplingOptions{}, SamplingOptions{.temperature = 1e6}, SamplingOptions{.top_k = 100},
        SamplingOptions{.top_p = 0.999999}, SamplingOptions{.min_p = 1e-9},
        SamplingOptions{.temperature = 1e6, .top_k = 2000, .top_p = 0.99999, .min_p = 1e-30}}) {
    // Nor does a bias bring them, nor a penalty that favours.
    options.logit_bias = {{3, 50}, {1501, -kInfinity}};
    options.repetition_penalty = 0.9;
    Sampler sampler(options, 2100);
    sampler.Observe(Tokens{3, 4, 1501});
    std::set<int32_t> drawn;
    for (int t = 0; t < 300; ++t) drawn.insert(sampler.Next(logits, workspace).token);
    EXPECT_EQ(drawn, (std::set<int32_t>{7, 1500, 2099}));
  }
  Sampler sampler({.seed = 3}, 2100);
  EXPECT_NEAR(sampler.Next(logits, workspace).log_probability, std::log(0.25),
              LogTolerance(logits));
}

TEST(Sampler, LargeLogitsStayFinite) {
  constexpr float kMost = std::numeric_limits<float>::max();
  SamplingWorkspace workspace;
  Sampler sampler(
      {.temperature = 0.5, .repetition_penalty = 0.1, .logit_bias = {{1, kMost}, {2, -kMost}}}, 4);
  sampler.Observe(Tokens{0, 2});
  const Logits logits = {kMost, kMost, -kMost, 0};
  // Tokens 0 and 1 are both as likely as can be.
  std::set<int32_t> drawn;
  for (int t = 0; t < 100; ++t) {
    const SampledToken got = sampler.Next(logits, workspace);
    drawn.insert(got.token);
    EXPECT_NEAR(got.log_probability, std::log(0.5), LogTolerance({0, 0}));
  }
  EXPECT_EQ(drawn, (std::set<int32_t>{0, 1}));
  Sampler last({.temperature = 0, .logit_bias = {{0, -kMost}, {1, -kInfinity}}}, 2);
  EXPECT_EQ(last.Next(Logits{-kMost, 1}, workspace).token, 0);
  Sampler punished({.repetition_penalty = 1e300}, 2);
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(punished.Next(Logits{-1e30f, -kInfinity}, workspace).token, 0);
  }
}

TEST(Sampler, APenaltyForgetsWhatHasLeftTheWindow) {
  SamplingWorkspace workspace;
  const Logits logits = {1.0f, 0.9f, 0.8f, 0.7f};
  const auto text = [&](int64_t window) {
    Sampler sampler({.temperature = 0, .repetition_penalty = 2, .repetition_window = window}, 4);
    std::string tokens;
    for (int t = 0; t < 8; ++t)
      tokens += static_cast<char>('0' + sampler.Next(logits, workspace).token);
    return tokens;
  };
  EXPECT_EQ(text(1), "01010101");
  EXPECT_EQ(text(2), "01201201");
  EXPECT_EQ(text(3), "01230123");
  // All are penalised alike from the fifth on, once each.
  EXPECT_EQ(text(0), "01230000");
  EXPECT_EQ(text(64), "01230000");
}

TEST(Sampler, AWindowHoldsTheEndOfALongPrompt) {
  SamplingWorkspace workspace;
  const Logits logits(1000, 1.0f);
  Tokens prompt(5000);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i % 1000);
  Sampler sampler({.temperature = 0, .repetition_penalty = 0.5, .repetition_window = 10}, 1000);
  sampler.Observe(prompt);
  EXPECT_EQ(sampler.Next(logits, workspace).token, 990);
  // 990 itself has come again, 991 to 999 are still there.
  EXPECT_EQ(sampler.Next(logits, workspace).token, 990);
  sampler.Observe(Tokens{500, 501});
  EXPECT_EQ(sampler.Next(logits, workspace).token, 500);
}

}  // namespace
}  // namespace cosformer::testing
