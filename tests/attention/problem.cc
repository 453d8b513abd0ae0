#include "problem.h"

#include <cmath>
#include <cstdlib>

namespace cosformer::testing {
namespace {

// As many threads as a case asks for: set before the first team reads it.
[[maybe_unused]] const int always_teams = setenv("COSFORMER_TEAMS", "always", 1);

}  // namespace

Compared ExpectClose(const char* name, const Tensor& actual, const std::vector<double>& exact,
                     const std::vector<double>& magnitude, double growth) {
  const DType stored = actual.view().dtype;
  Compared compared;
  size_t n = 0;
  double worst = 1;
  std::ostringstream message;
  actual.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
    const double expected = exact.at(n), size = magnitude.at(n);
    const double found = actual.At(b, i, h, e);
    ++n;
    if (std::isinf(size)) {
      ++compared.unsure;
      return;
    }
    ++compared.sure;
    if (found == expected) return;
    const double tolerance = Tolerance(growth, size, expected, stored);
    const double error = std::abs(found - expected) / tolerance;
    if (error <= worst) return;
    // NaN is worse than anything.
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    message.str("");
    message << name << "[" << b << ", " << i << ", " << h << ", " << e << "] is " << found
            << ", not " << expected << " +- " << tolerance << " (" << worst
            << " times the tolerance, magnitude " << size << ")";
  });
  EXPECT_EQ(n, exact.size()) << name;
  if (worst > 1) ADD_FAILURE() << message.str();
  return compared;
}

void ExpectSameBits(const char* name, const Tensor& a, const Tensor& b,
                    const std::function<bool(int64_t, int64_t, int64_t)>& compare) {
  bool same = true;
  a.ForEach([&](int64_t batch, int64_t row, int64_t head, int64_t e) {
    if (!same || !compare(batch, row, head)) return;
    if (a.Bits(batch, row, head, e) == b.Bits(batch, row, head, e)) return;
    same = false;
    ADD_FAILURE() << name << "[" << batch << ", " << row << ", " << head << ", " << e << "] is "
                  << a.At(batch, row, head, e) << " once and " << b.At(batch, row, head, e)
                  << " once";
  });
}

void ExpectSameBits(const char* name, const Tensor& a, const Tensor& b) {
  ExpectSameBits(name, a, b, [](int64_t, int64_t, int64_t) { return true; });
}

std::span<float> Floats(const Tensor& tensor) {
  const ConstView view = tensor.view();
  return {static_cast<float*>(const_cast<void*>(view.data)),
          static_cast<size_t>(view.batch * view.length * view.heads * view.dim)};
}

float RandomKeep(Random& random) {
  switch (Uniform(random, 0, 20)) {
    case 0:
      return 0;
    case 1:
      return 1e-12f;  // of two in a row nothing is left in float32
    case 2:
    case 3:
      return 1;
    default:
      return 1 - std::exp(std::uniform_real_distribution<float>(-7, 0)(random));
  }
}

}  // namespace cosformer::testing
