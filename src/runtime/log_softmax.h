// Probabilities of logits, in double precision.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cosformer/sampling.h"

namespace cosformer::runtime {

// The logarithm of the sum of exponentials: a logit less this is a log-probability.
double LogSum(std::span<const float> logits);

// Ties go to the lower token.
bool Likelier(std::span<const float> logits, int32_t a, int32_t b);

// The `count` likeliest, in that order; all if there are fewer.
std::vector<ScoredToken> Likeliest(std::span<const float> logits, double log_sum, int64_t count);

}  // namespace cosformer::runtime
