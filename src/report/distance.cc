#include "report/distance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "report/heatmap_levels.h"

namespace cosformer::report {

std::vector<double> MassByDistance(std::span<const float> values, int64_t rows, int64_t columns) {
  CheckValues("the map whose mass is taken by distance", values, rows, columns);
  const auto distances = static_cast<size_t>(std::max(rows, columns));
  std::vector<double> means(distances, 0.0);
  std::vector<int64_t> counts(distances, 0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const float value = values[static_cast<size_t>(i * columns + j)];
      if (std::isnan(value)) continue;
      const auto distance = static_cast<size_t>(std::abs(i - j));
      means[distance] += value;
      ++counts[distance];
    }
  }
  // 0 / 0 where there is no cell: the NaN of the contract.
  for (size_t d = 0; d < distances; ++d) means[d] /= static_cast<double>(counts[d]);
  return means;
}

}  // namespace cosformer::report
