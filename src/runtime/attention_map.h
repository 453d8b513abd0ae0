// What a layer's head attends to: the weights of a text's tokens, all of them. Quadratic, for
// looking at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/network.h"

namespace cosformer::runtime {

// [tokens, tokens]: row i has the weights of token i; NaN for tokens that come later, in a decoder.
// A row sums to 1, but not in linear attention with rotary positions: the normaliser is of the
// features before they are turned, so that rows have other sums. Weights may be negative there, and
// where features are. Where "normaliser" is "norm", they are those that "sum" would give. A row
// without any weight is zeros. head: -1 for the mean of all.
// Throws Error for a layer or head that the model does not have, and for more than kMostMapTokens
// tokens.
std::vector<float> AttentionMap(const Network& network, std::span<const int32_t> tokens,
                                int64_t layer, int64_t head);

inline constexpr int64_t kMostMapTokens = 4096;

}  // namespace cosformer::runtime
