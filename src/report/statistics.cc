#include "report/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

namespace cosformer::report {

double Median(std::vector<double> values) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

Interval Wilson(int64_t hits, int64_t trials, double z) {
  assert(hits >= 0 && hits <= trials);
  if (trials == 0) return {0, 1};
  const double n = static_cast<double>(trials);
  const double share = static_cast<double>(hits) / n;
  const double shrink = 1 + z * z / n;
  const double centre = (share + z * z / (2 * n)) / shrink;
  const double half = z / shrink * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  // At the ends the difference is 0 or 1 but for rounding.
  return {hits == 0 ? 0 : std::max(0.0, centre - half),
          hits == trials ? 1 : std::min(1.0, centre + half)};
}

Interval OfMean(std::span<const double> sums, std::span<const double> counts, double z) {
  assert(sums.size() == counts.size());
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (sums.size() < 2 || total == 0) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    return {kNone, kNone};
  }
  const double ratio = std::accumulate(sums.begin(), sums.end(), 0.0) / total;
  double squares = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double residual = sums[i] - ratio * counts[i];
    squares += residual * residual;
  }
  const double n = static_cast<double>(sums.size());
  const double half = z * std::sqrt(n / (n - 1) * squares) / total;
  return {ratio - half, ratio + half};
}

}  // namespace cosformer::report
