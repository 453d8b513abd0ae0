// What the sampler refuses, and with which sentence.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "contains.h"
#include "cosformer/sampling.h"
#include "naive_sampling.h"

namespace cosformer::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::string MessageFor(const SamplingOptions& options, int64_t vocabulary = 100) {
  return MessageOf([&] { Sampler(options, vocabulary); });
}

TEST(SamplerErrors, OptionsOutsideTheirRangesAreNamed) {
  constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  const auto refused = [](const SamplingOptions& options, const std::string& sentence) {
    EXPECT_TRUE(Contains(MessageFor(options), sentence));
  };
  refused({.temperature = -1}, "temperature is -1; expected 1e-06 to 1000000, or 0");
  refused({.temperature = 1e-7}, "temperature is 1e-07");
  refused({.temperature = 2e6}, "temperature is 2000000");
  refused({.temperature = kNotANumber}, "temperature is nan");
  refused({.temperature = kEndless}, "temperature is inf");
  refused({.top_k = -1}, "top_k is -1; expected the number of tokens");
  refused({.top_p = -0.1}, "top_p is -0.1; expected 0 to 1");
  refused({.top_p = 1.5}, "top_p is 1.5; expected 0 to 1");
  refused({.top_p = kNotANumber}, "top_p is nan");
  refused({.min_p = -0.1}, "min_p is -0.1; expected 0 to 1");
  refused({.min_p = 1.01}, "min_p is 1.01");
  refused({.min_p = kNotANumber}, "min_p is nan");
  refused({.repetition_penalty = 0}, "repetition_penalty is 0; expected a number above 0");
  refused({.repetition_penalty = -2}, "repetition_penalty is -2");
  refused({.repetition_penalty = kEndless}, "repetition_penalty is inf");
  refused({.repetition_penalty = kNotANumber}, "repetition_penalty is nan");
  refused({.repetition_window = -1}, "repetition_window is -1; expected 1 to 1048576 tokens, or 0");
  refused({.repetition_window = 1'048'577}, "repetition_window is 1048577");
  refused({.logit_bias = {{100, 1}}},
          "logit_bias is given for token 100, and the model's vocabulary has 100, 0 to 99");
  refused({.logit_bias = {{-1, 1}}}, "logit_bias is given for token -1");
  refused({.logit_bias = {{3, kNaN}}}, "logit_bias is nan for token 3");
  refused({.logit_bias = {{3, kInfinity}}}, "logit_bias is inf for token 3");
  refused({.logit_bias = {{3, 1}, {4, 1}, {3, 1}}}, "logit_bias has token 3 twice");
  EXPECT_TRUE(Contains(MessageFor({}, 0), "a vocabulary of 0 tokens"));
  EXPECT_TRUE(Contains(MessageFor({}, int64_t{1} << 31), "a vocabulary of 2147483648 tokens"));
}

TEST(SamplerErrors, TheEndsOfTheRangesAreAllowed) {
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 0}, SamplingOptions{.temperature = 1e-6},
        SamplingOptions{.temperature = 1e6}, SamplingOptions{.top_k = 1000},
        SamplingOptions{.top_p = 0}, SamplingOptions{.min_p = 1},
        SamplingOptions{.repetition_window = 1'048'576},
        SamplingOptions{.repetition_penalty = 1e-300}, SamplingOptions{.repetition_penalty = 1e300},
        SamplingOptions{.logit_bias = {{0, -kInfinity}, {99, 1e30f}}}}) {
    EXPECT_EQ(MessageFor(options), "");
    Sampler sampler(options, 100);
    SamplingWorkspace workspace;
    const Logits logits(100, 1.0f);
    for (int t = 0; t < 3; ++t) EXPECT_NO_THROW(sampler.Next(logits, workspace));
  }
}

TEST(SamplerErrors, LogitsThatAreNoNumbersAreNamed) {
  SamplingWorkspace workspace;
  for (const double temperature : {0.0, 1.0, 0.7}) {
    for (const int64_t top_k : {0, 5}) {
      Sampler sampler({.temperature = temperature, .top_k = top_k}, 1100);
      const auto message = [&](const Logits& logits) {
        return MessageOf([&] { sampler.Next(logits, workspace); });
      };
      for (const size_t at : {0u, 17u, 1023u, 1024u, 1099u}) {
        for (const float others : {1.0f, -kInfinity}) {
          Logits logits(1100, others);
          logits[at] = kNaN;
          EXPECT_TRUE(Contains(message(logits), "logit " + std::to_string(at) + " of 1100 is NaN"));
          logits[at] = kInfinity;
          EXPECT_TRUE(
              Contains(message(logits), "logit " + std::to_string(at) + " of 1100 is infinity"));
        }
      }
      EXPECT_TRUE(Contains(message(Logits(1100, -kInfinity)), "all 1100 logits are -infinity"));
      EXPECT_TRUE(Contains(message(Logits(1099, 1.0f)),
                           "1099 logits were given for a vocabulary of 1100 tokens"));
      EXPECT_TRUE(Contains(message({}), "0 logits were given"));
    }
  }
}

TEST(SamplerErrors, ForbiddingAllThatMayComeIsRefused) {
  SamplingWorkspace workspace;
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature, .logit_bias = {{0, -kInfinity}, {2, -kInfinity}}},
                    3);
    EXPECT_TRUE(Contains(MessageOf([&] {
                           sampler.Next(Logits{1, -kInfinity, 2}, workspace);
                         }),
                         "logit_bias forbids every token"));
    EXPECT_EQ(sampler.Next(Logits{1, -5, 2}, workspace).token, 1);
  }
}

TEST(SamplerErrors, TokensOutsideTheVocabularyAreRefusedAndNoneRemembered) {
  SamplingWorkspace workspace;
  Sampler sampler({.temperature = 0, .repetition_penalty = 10}, 3);
  for (const int32_t token : {-1, 3}) {
    EXPECT_TRUE(Contains(MessageOf([&] {
                           sampler.Observe(Tokens{2, token});
                         }),
                         "token " + std::to_string(token) + " is outside the vocabulary of 3"));
  }
  EXPECT_EQ(sampler.Next(Logits{1, 2, 3}, workspace).token, 2);
}

TEST(SamplerErrors, NothingChangesWhenLogitsAreRefused) {
  SamplingWorkspace workspace;
  Sampler sampler({.repetition_penalty = 1.5, .seed = 5}, 200);
  Sampler untouched = sampler;
  std::mt19937_64 random(1);
  for (int t = 0; t < 30; ++t) {
    const Logits logits = NormalLogits(200, random);
    Logits broken = logits;
    broken[3] = kNaN;
    EXPECT_THROW(sampler.Next(broken, workspace), Error);
    EXPECT_THROW(sampler.Next(logits, workspace, -1), Error);
    EXPECT_EQ(sampler.Next(logits, workspace).token, untouched.Next(logits, workspace).token);
  }
}

}  // namespace
}  // namespace cosformer::testing
