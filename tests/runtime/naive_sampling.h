// The naive twin of the sampler: every step over the whole vocabulary, sorted, in double. And what
// a result may differ from it by.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "cosformer/sampling.h"

namespace cosformer::testing {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A rounding to float is off by at most this part of the number; one to double by kDouble.
constexpr double kUnit = 0x1p-24;
constexpr double kDouble = 0x1p-53;

using Logits = std::vector<float>;
using Tokens = std::vector<int32_t>;
using Doubles = std::vector<double>;

inline Logits NormalLogits(int64_t n, std::mt19937_64& random, double deviation = 3) {
  std::normal_distribution<double> normal(0, deviation);
  Logits logits(static_cast<size_t>(n));
  for (float& x : logits) x = static_cast<float>(normal(random));
  return logits;
}

inline double NaiveLogSum(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

// Steps 1 and 2; `text` is all that came before.
inline Logits NaiveAdjusted(Logits logits, const SamplingOptions& options, const Tokens& text) {
  for (const LogitBias& bias : options.logit_bias) {
    float& x = logits[static_cast<size_t>(bias.token)];
    x = static_cast<float>(static_cast<double>(x) + bias.value);
  }
  const size_t window = options.repetition_window == 0
                            ? text.size()
                            : std::min(text.size(), static_cast<size_t>(options.repetition_window));
  for (const int32_t token :
       std::set<int32_t>(text.end() - static_cast<ptrdiff_t>(window), text.end())) {
    float& x = logits[static_cast<size_t>(token)];
    x = static_cast<float>(x > 0 ? x / options.repetition_penalty : x * options.repetition_penalty);
  }
  return logits;
}

// The likeliest first, of equal ones the lower token.
inline Tokens NaiveOrder(std::span<const float> logits) {
  Tokens order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return order;
}

struct NaiveDistribution {
  Doubles probability;     // by token; 0 for those that were left out
  bool ambiguous = false;  // a bound of top-p or min-p is met but for rounding
  double tolerance = 0;    // of a sum of probabilities
};

// Steps 3 to 6, for a temperature above 0.
inline NaiveDistribution NaiveProbabilities(const Logits& logits, const SamplingOptions& options) {
  const Tokens order = NaiveOrder(logits);
  const size_t n = logits.size();
  const double largest = logits[static_cast<size_t>(order[0])];
  Doubles weights(n);  // in that order
  double total = 0;
  double units = 0;
  for (size_t i = 0; i < n; ++i) {
    const double a = (largest - logits[static_cast<size_t>(order[i])]) / options.temperature;
    weights[i] = std::exp(-a);
    total += weights[i];
    if (weights[i] > 0) units += weights[i] * (3 * a + 2);
  }
  NaiveDistribution result;
  const bool few = options.top_k > 0 && options.top_k < static_cast<int64_t>(n);
  if (few) {
    std::fill(weights.begin() + options.top_k, weights.end(), 0.0);
    total = std::accumulate(weights.begin(), weights.end(), 0.0);
  }
  // Sums over the vocabulary are of floats: each term is off by its argument's roundings, of the
  // difference, the scale and their product, and two of its own; runs of 1024 are added up in four
  // lanes at least. Terms below exp(-87) are dropped. Otherwise all is in double, where as many
  // terms are added, and their arguments, up to 745, have three roundings.
  const double in_double = kDouble * (static_cast<double>(n) + 3 * 745);
  result.tolerance =
      few ? in_double
          : in_double + kUnit * (units / total + 1024.0 / 4 + 5) + 1e-37 * static_cast<double>(n);
  if (options.top_p < 1) {
    double sum = 0;
    size_t kept = 0;
    while (kept < n && (kept == 0 || sum < options.top_p * total)) sum += weights[kept++];
    // Near the bound before the last token or with it, one more or less may be right.
    const auto near = [&](double reached) {
      return std::abs(reached / total - options.top_p) <= result.tolerance;
    };
    result.ambiguous = near(sum) || (kept > 1 && near(sum - weights[kept - 1]));
    std::fill(weights.begin() + static_cast<ptrdiff_t>(kept), weights.end(), 0.0);
  }
  double rest = 0;
  for (double& weight : weights) {
    // A weight of 1 is the likeliest's, and exact.
    if (weight != 1 && weight > 0) {
      result.ambiguous |= std::abs(weight - options.min_p) <= in_double * weight;
    }
    if (weight < options.min_p) weight = 0;
    rest += weight;
  }
  result.probability.resize(n);
  for (size_t i = 0; i < n; ++i) {
    result.probability[static_cast<size_t>(order[i])] = weights[i] / rest;
  }
  // Only where nothing is left out is a token drawn from sums in float.
  if (few || options.top_p < 1 || options.min_p > 0) result.tolerance = in_double;
  return result;
}

}  // namespace cosformer::testing
