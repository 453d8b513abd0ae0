// A program that uses the installed library: the same text in one call and token by token.
#include <cosformer/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  constexpr int64_t kLength = 100, kHeads = 2, kDim = 8;
  std::vector<float> q(kLength * kHeads * kDim), k(q.size()), v(q.size());
  for (size_t n = 0; n < q.size(); ++n) {
    q[n] = std::sin(0.37f * static_cast<float>(n));
    k[n] = std::cos(0.73f * static_cast<float>(n));
    v[n] = std::sin(1.1f * static_cast<float>(n));
  }
  const auto view = [](const std::vector<float>& x) {
    return cosformer::ConstView::Of(x.data(), 1, kLength, kHeads, kDim);
  };
  std::vector<float> parallel(q.size()), streamed(q.size());
  cosformer::LinearOptions options;
  options.kernel.horizon = kLength;
  cosformer::LinearAttentionForward(view(q), view(k), view(v),
                                    cosformer::View::Of(parallel.data(), 1, kLength, kHeads, kDim),
                                    {}, options);

  cosformer::LinearState state({1, kHeads, kDim, kDim, options.kernel, false});
  for (int64_t i = 0; i < kLength; ++i) {
    const auto token = [i](const std::vector<float>& x) {
      return cosformer::ConstView::Of(x.data() + i * kHeads * kDim, 1, 1, kHeads, kDim);
    };
    state.Step(token(q), token(k), token(v),
               cosformer::View::Of(streamed.data() + i * kHeads * kDim, 1, 1, kHeads, kDim));
  }

  float difference = 0;
  for (size_t n = 0; n < parallel.size(); ++n) {
    difference = std::max(difference, std::abs(parallel[n] - streamed[n]));
  }
  std::printf("%s: parallel and streamed differ by at most %g\n", cosformer::AttentionTarget(),
              difference);
  // Values of at most 1, sums of 100 terms in either order: sqrt(100) roundings of 2^-24 and some.
  return difference <= 40 * 0x1p-24f ? 0 : 1;
}
