// What the two writers of heatmaps share: checks, averaging, the range of colours, and the colour
// of every cell.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "report/heatmap.h"

namespace cosformer::report {

struct ColourRange {
  double low = 0;  // low < high, both positive on a logarithmic scale
  double high = 1;
  bool below = false;  // there are values less than `low`, which then is a power of ten
  bool above = false;  // there are values greater than `high`
};

// How far a value is from the lower end of the range to the upper one: from 0 to 1 within it,
// -infinity for 0 on a logarithmic scale.
double ShareOf(double value, const ColourRange& range, bool logarithmic);

struct LevelMap {
  int64_t rows = 0;  // of cells drawn: fewer than the heatmap's, if averaged
  int64_t columns = 0;
  int64_t block = 1;            // a cell is the mean of block x block values
  std::vector<uint8_t> levels;  // [rows, columns], entries of HeatmapPalette()
  ColourRange range;
  double smallest = 0;  // of the values before averaging, masked ones left out
  double largest = 0;
  bool masked = false;  // some cell is
};

// Throws Error, beginning with `name`, if the sizes are not positive, if there are not
// rows * columns values, and if one is infinite.
void CheckValues(std::string_view name, std::span<const float> values, int64_t rows,
                 int64_t columns);

// The maps of a figure with at most `most` cells on a side. Throws what HeatmapSvg says.
std::vector<LevelMap> LevelsOf(const HeatmapFigure& figure, int64_t most);

}  // namespace cosformer::report
