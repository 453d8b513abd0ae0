#include "runtime/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cosformer::runtime {

double LogSum(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  return most + std::log(sum);
}

bool Likelier(std::span<const float> logits, int32_t a, int32_t b) {
  const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
  return x != y ? x > y : a < b;
}

std::vector<ScoredToken> Likeliest(std::span<const float> logits, double log_sum, int64_t count) {
  std::vector<int32_t> order(count > 0 ? logits.size() : 0);
  std::iota(order.begin(), order.end(), 0);
  const size_t kept = std::min(order.size(), static_cast<size_t>(std::max<int64_t>(count, 0)));
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(kept), order.end(),
                    [&](int32_t a, int32_t b) { return Likelier(logits, a, b); });
  std::vector<ScoredToken> likeliest;
  for (size_t i = 0; i < kept; ++i) {
    const float logit = logits[static_cast<size_t>(order[i])];
    likeliest.push_back({order[i], static_cast<double>(logit) - log_sum});
  }
  return likeliest;
}

}  // namespace cosformer::runtime
