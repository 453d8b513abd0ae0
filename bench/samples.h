// What a handful of timings comes down to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cosformer::bench {

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

}  // namespace cosformer::bench
