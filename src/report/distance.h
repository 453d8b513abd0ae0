// How far attention reaches: the curve that stands beside an attention map.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cosformer::report {

// The mean of `values` [rows, columns] over the cells at each distance |row - column|, from 0 to
// max(rows, columns) - 1. NaN cells are masked and left out; where no cell is left the mean is NaN,
// which a line plot leaves as a gap. Throws Error if the sizes are not positive, if there are not
// rows * columns values, and if one is infinite.
std::vector<double> MassByDistance(std::span<const float> values, int64_t rows, int64_t columns);

}  // namespace cosformer::report
