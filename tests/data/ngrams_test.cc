// The fast tables against counts in plain maps, and what a probability must be.
#include "data/ngrams.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "report/contains.h"

namespace cosformer::data {
namespace {

using testing::Contains;
using testing::MessageOf;
using Tokens = std::vector<int32_t>;

// Texts in which some tokens are far more frequent than others, as words are.
std::vector<Tokens> RandomTexts(std::mt19937& random, int vocabulary, int texts, int length) {
  std::vector<Tokens> all(static_cast<size_t>(texts));
  std::geometric_distribution<int> token(2.0 / (1 + vocabulary));
  for (Tokens& text : all) {
    text.resize(random() % static_cast<size_t>(length + 1));
    for (int32_t& t : text) t = std::min(token(random), vocabulary - 1);
  }
  return all;
}

// The naive twin: grams in maps, every sum taken when it is needed.
class Twin {
 public:
  Twin(int vocabulary, int order, const std::vector<Tokens>& texts)
      : vocabulary_(vocabulary), order_(order), levels_(static_cast<size_t>(order)) {
    for (const Tokens& text : texts) {
      Tokens padded(static_cast<size_t>(order - 1), vocabulary);
      padded.insert(padded.end(), text.begin(), text.end());
      for (size_t i = 0; i + static_cast<size_t>(order) <= padded.size(); ++i) {
        ++levels_.back()[Tokens(padded.begin() + static_cast<ptrdiff_t>(i),
                                padded.begin() + static_cast<ptrdiff_t>(i) + order)];
      }
    }
    for (size_t n = levels_.size() - 1; n > 0; --n) {
      for (const auto& [gram, count] : levels_[n]) {
        ++levels_[n - 1][Tokens(gram.begin() + 1, gram.end())];
      }
    }
  }

  double Probability(Tokens gram) const {
    const auto& level = levels_[gram.size() - 1];
    double total = 0, count = 0, discounted = 0;
    for (const auto& [other, times] : level) {
      if (!std::equal(other.begin(), other.end() - 1, gram.begin())) continue;
      total += times;
      discounted += Discount(level, times);
      if (other == gram) count = times;
    }
    double below = 1.0 / vocabulary_;
    if (order_ == 1) return (count + 1) / (total + vocabulary_);
    if (gram.size() > 1) below = Probability(Tokens(gram.begin() + 1, gram.end()));
    if (total == 0) return below;
    return (count - Discount(level, count)) / total + discounted / total * below;
  }

 private:
  using Counts = std::map<Tokens, double>;

  static double Discount(const Counts& level, double count) {
    if (count == 0) return 0;
    std::array<double, 5> n = {};
    for (const auto& [gram, times] : level) {
      if (times <= 4) ++n[static_cast<size_t>(times)];
    }
    std::array<double, 4> discounts = {0, 0.5, 1, 1.5};
    if (n[1] * n[2] * n[3] * n[4] > 0) {
      const double y = n[1] / (n[1] + 2 * n[2]);
      const std::array<double, 4> chen = {0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2],
                                          3 - 4 * y * n[4] / n[3]};
      if (chen[1] > 0 && chen[2] > 0 && chen[3] > 0) discounts = chen;
    }
    return discounts[static_cast<size_t>(std::min(count, 3.0))];
  }

  int vocabulary_;
  int order_;
  std::vector<Counts> levels_;
};

TEST(NGrams, EqualTheNaiveTwinAndSumToOneInEveryContext) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int order = 1 + round % 3;
    const int vocabulary = 1 + static_cast<int>(random() % 9);
    const auto texts = RandomTexts(random, vocabulary, static_cast<int>(random() % 4), 150);
    NGramModel model(vocabulary, order);
    for (const Tokens& text : texts) model.Count(text);
    model.Finish();
    const Twin twin(vocabulary, order, texts);
    for (int trial = 0; trial < 12; ++trial) {
      Tokens before(random() % 4);
      for (int32_t& t : before)
        t = static_cast<int32_t>(random() % static_cast<size_t>(vocabulary));
      Tokens padded(static_cast<size_t>(order - 1), vocabulary);
      padded.insert(padded.end(), before.begin(), before.end());
      Tokens gram(padded.end() - (order - 1), padded.end());
      gram.push_back(0);
      double sum = 0;
      for (int32_t token = 0; token < vocabulary; ++token) {
        gram.back() = token;
        const double probability = std::exp(model.LogProbability(before, token));
        ASSERT_GT(probability, 0);
        ASSERT_NEAR(probability, twin.Probability(gram), 1e-12) << "order " << order;
        sum += probability;
      }
      ASSERT_NEAR(sum, 1, 1e-12) << "order " << order << ", vocabulary " << vocabulary;
    }
  }
}

TEST(NGrams, DiscountsOfALanguageAreTakenFromItsCounts) {
  // Enough for every count of counts, so that the twin leaves its usual discounts.
  std::mt19937 random(2);
  const auto texts = RandomTexts(random, 40, 1, 4000);
  NGramModel model(40, 2);
  for (const Tokens& text : texts) model.Count(text);
  model.Finish();
  const Twin twin(40, 2, texts);
  for (int32_t a = 0; a < 8; ++a) {
    for (int32_t b = 0; b < 40; b += 3) {
      const Tokens before = {a};
      ASSERT_NEAR(std::exp(model.LogProbability(before, b)), twin.Probability({a, b}), 1e-12);
    }
  }
}

TEST(NGrams, ATextsLikelihoodIsThatOfItsTokens) {
  std::mt19937 random(3);
  for (int order = 1; order <= 3; ++order) {
    NGramModel model(7, order);
    for (const Tokens& text : RandomTexts(random, 7, 3, 200)) model.Count(text);
    model.Finish();
    const Tokens text = {3, 0, 0, 6, 1, 0, 2};
    double sum = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      sum -= model.LogProbability(std::span(text).first(i), text[i]);
    }
    EXPECT_NEAR(model.NegativeLogLikelihood(text), sum, 1e-10);
    // A part of it, with all that is looked at before.
    const std::span<const int32_t> all = text;
    const double head = model.NegativeLogLikelihood(all.first(4));
    EXPECT_NEAR(model.NegativeLogLikelihood(all.subspan(2), 2), sum - head, 1e-10);
    EXPECT_EQ(model.NegativeLogLikelihood({}), 0);
  }
}

TEST(NGrams, ALongerMemoryFitsAPatternBetter) {
  Tokens text;
  for (int i = 0; i < 300; ++i) text.insert(text.end(), {0, 1, 0, 2});
  std::array<double, 4> loss = {};
  for (int order = 1; order <= 3; ++order) {
    NGramModel model(3, order);
    model.Count(text);
    model.Finish();
    loss[static_cast<size_t>(order)] =
        model.NegativeLogLikelihood(text) / static_cast<double>(text.size());
  }
  EXPECT_NEAR(loss[1], 1.5 * std::log(2), 0.01);
  EXPECT_NEAR(loss[2], 0.5 * std::log(2), 0.02);
  EXPECT_LT(loss[3], 0.03);
}

TEST(NGrams, GramsThatDoNotFitIntoOneBatchAreMerged) {
  // 2^24 grams are sorted at a time, which are 12 of one text and 4 of the other. Of the latter one
  // more follows, and a third.
  Tokens ones(1 << 20), twos(1 << 20);
  for (size_t i = 1; i < ones.size(); i += 2) ones[i] = 1, twos[i] = 2;
  NGramModel model(5, 2);
  for (int i = 0; i < 12; ++i) model.Count(ones);
  for (int i = 0; i < 5; ++i) model.Count(twos);
  model.Count(Tokens{3, 0});
  model.Finish();
  EXPECT_NEAR(std::exp(model.LogProbability(Tokens{0}, 1)), 12.0 / 17, 1e-5);
  EXPECT_NEAR(std::exp(model.LogProbability(Tokens{0}, 2)), 5.0 / 17, 1e-5);
  EXPECT_GT(model.LogProbability(Tokens{3}, 0), std::log(0.5));
  EXPECT_LT(model.LogProbability(Tokens{0}, 4), std::log(1e-6));
}

TEST(NGrams, WithoutTextAllTokensAreAlike) {
  for (int order = 1; order <= 3; ++order) {
    NGramModel model(5, order);
    model.Count({});
    model.Finish();
    EXPECT_NEAR(model.LogProbability({}, 4), std::log(0.2), 1e-12);
  }
}

TEST(NGrams, WhatIsOutsideTheVocabularyIsRefused) {
  EXPECT_TRUE(Contains(MessageOf([] { NGramModel(10, 0); }), "ask for 1, 2 or 3"));
  EXPECT_TRUE(Contains(MessageOf([] { NGramModel(10, 4); }), "n-grams of 4 tokens"));
  EXPECT_TRUE(Contains(MessageOf([] { NGramModel(0, 1); }), "expected 1 to 2,097,151"));
  EXPECT_TRUE(Contains(MessageOf([] { NGramModel(2097152, 3); }), "2,097,152 tokens"));
  NGramModel largest(2097151, 3);
  largest.Count(Tokens{2097150, 2097150, 0, 2097150});
  largest.Finish();
  EXPECT_GT(largest.LogProbability(Tokens{2097150, 0}, 2097150), std::log(0.3));

  NGramModel model(10, 2);
  EXPECT_EQ(MessageOf([&] {
              model.Count(Tokens{1, 10});
            }),
            "token 10 is outside the n-grams' vocabulary of 10");
  EXPECT_TRUE(Contains(MessageOf([&] { model.Count(Tokens{-1}); }), "token -1"));
  model.Finish();
  EXPECT_TRUE(Contains(MessageOf([&] { model.NegativeLogLikelihood(Tokens{10}); }), "token 10"));
  EXPECT_TRUE(Contains(MessageOf([&] { model.LogProbability({}, 11); }), "token 11"));
  EXPECT_TRUE(Contains(MessageOf([&] { model.LogProbability(Tokens{12}, 1); }), "token 12"));
}

}  // namespace
}  // namespace cosformer::data
