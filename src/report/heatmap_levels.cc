// Check, average, range, level: in this order, so that colours span what is drawn.
#include "report/heatmap_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "cosformer/error.h"
#include "report/colour_map.h"

namespace cosformer::report {
namespace {

constexpr double kMostDecades = 6;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string NameOf(const Heatmap& map) { return fmt::format("the heatmap \"{}\"", map.title); }

void CheckLabels(const Heatmap& map, const std::vector<std::string>& labels, int64_t cells,
                 std::string_view side) {
  if (labels.empty() || labels.size() == static_cast<size_t>(cells)) return;
  throw Error(fmt::format("{} has {} labels for {} {}s; give one a {}, or none", NameOf(map),
                          labels.size(), cells, side, side));
}

void CheckMap(const Heatmap& map, bool logarithmic) {
  CheckValues(NameOf(map), map.values, map.rows, map.columns);
  CheckLabels(map, map.row_labels, map.rows, "row");
  CheckLabels(map, map.column_labels, map.columns, "column");
  if (logarithmic) {
    for (size_t i = 0; i < map.values.size(); ++i) {
      if (!(map.values[i] < 0)) continue;
      throw Error(fmt::format(
          "{} holds {} at row {}, column {}, which has no place on a logarithmic scale; draw it on "
          "the linear one",
          NameOf(map), map.values[i], static_cast<int64_t>(i) / map.columns,
          static_cast<int64_t>(i) % map.columns));
    }
  }
  if (std::all_of(map.values.begin(), map.values.end(), [](float v) { return std::isnan(v); })) {
    throw Error(fmt::format("nothing to draw in {}: every cell is masked (NaN)", NameOf(map)));
  }
}

// [rows, columns] of the cells drawn.
struct Cells {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t block = 1;
  std::vector<double> values;
};

Cells Average(const Heatmap& map, int64_t most) {
  Cells cells;
  cells.block = (std::max(map.rows, map.columns) + most - 1) / most;
  cells.rows = (map.rows + cells.block - 1) / cells.block;
  cells.columns = (map.columns + cells.block - 1) / cells.block;
  const auto size = static_cast<size_t>(cells.rows * cells.columns);
  std::vector<double> sums(size, 0.0);
  std::vector<int64_t> counts(size, 0);
  for (int64_t i = 0; i < map.rows; ++i) {
    for (int64_t j = 0; j < map.columns; ++j) {
      const float value = map.values[static_cast<size_t>(i * map.columns + j)];
      if (std::isnan(value)) continue;
      const auto cell = static_cast<size_t>(i / cells.block * cells.columns + j / cells.block);
      sums[cell] += value;
      ++counts[cell];
    }
  }
  for (size_t cell = 0; cell < size; ++cell) {
    cells.values.push_back(counts[cell] > 0 ? sums[cell] / static_cast<double>(counts[cell])
                                            : kNan);
  }
  return cells;
}

// Within `values` there is a number.
ColourRange RangeOf(std::vector<double> values, const HeatmapFigure& figure,
                    const std::string& name) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  std::sort(values.begin(), values.end());
  const double smallest = values.front();
  const auto left_out = static_cast<size_t>(figure.saturated * static_cast<double>(values.size()));
  double high = values[values.size() - 1 - left_out];
  // A map of few large weights among zeros has them all above; then none is left out.
  if (high <= 0) high = values.back();
  const bool above = high < values.back();
  if (!figure.logarithmic) {
    const double low = std::min(smallest, 0.0);
    high = std::max(high, 0.0);
    return {low, low < high ? high : 1.0, false, above};
  }
  if (high <= 0) {
    throw Error(fmt::format(
        "nothing to draw in {} on a logarithmic scale: no value is positive; draw it on the linear "
        "one",
        name));
  }
  const double lowest = std::pow(10.0, std::ceil(std::log10(high)) - kMostDecades);
  if (smallest >= lowest) {
    // Equal values still need a range around them.
    if (smallest == high) return {high / 2, above ? high : high * 2, false, above};
    return {smallest, high, false, above};
  }
  // A whole power, so that a tick of the bar stands where it is cut, and another above it.
  const double positive = *std::upper_bound(values.begin(), values.end(), 0.0);
  const double low =
      std::pow(10.0, std::min(std::floor(std::log10(positive)), std::floor(std::log10(high)) - 1));
  return {std::max(low, lowest), high, true, above};
}

}  // namespace

void CheckValues(std::string_view name, std::span<const float> values, int64_t rows,
                 int64_t columns) {
  if (rows < 1 || columns < 1) {
    throw Error(fmt::format("{} has {} rows and {} columns; there must be at least one of each",
                            name, rows, columns));
  }
  // Divided, since the product of sizes that are wrong may not fit.
  const size_t width = static_cast<size_t>(columns);
  if (values.size() % width != 0 || values.size() / width != static_cast<size_t>(rows)) {
    throw Error(fmt::format("{} has {} values for {} rows and {} columns; give rows * columns",
                            name, values.size(), rows, columns));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isinf(values[i])) continue;
    throw Error(fmt::format(
        "{} holds {} at row {}, column {}; give finite values, and NaN where a cell is masked",
        name, values[i], i / width, i % width));
  }
}

double ShareOf(double value, const ColourRange& range, bool logarithmic) {
  if (!logarithmic) return (value - range.low) / (range.high - range.low);
  return std::log(value / range.low) / std::log(range.high / range.low);
}

std::vector<LevelMap> LevelsOf(const HeatmapFigure& figure, int64_t most) {
  if (figure.maps.empty()) {
    throw Error(
        fmt::format("nothing to draw in the figure \"{}\": it has no heatmap; give one or "
                    "more",
                    figure.title));
  }
  if (!(figure.saturated >= 0 && figure.saturated < 1)) {
    throw Error(
        fmt::format("the figure \"{}\" has {} as the share of saturated cells; give one "
                    "from 0 to less than 1",
                    figure.title, figure.saturated));
  }
  for (const Heatmap& map : figure.maps) CheckMap(map, figure.logarithmic);
  std::vector<Cells> drawn;
  std::vector<double> all;
  for (const Heatmap& map : figure.maps) {
    drawn.push_back(Average(map, most));
    if (!figure.common_range) continue;
    all.insert(all.end(), drawn.back().values.begin(), drawn.back().values.end());
  }
  ColourRange range;
  if (figure.common_range) {
    range = RangeOf(std::move(all), figure, fmt::format("the figure \"{}\"", figure.title));
  }
  std::vector<LevelMap> maps;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const Cells& cells = drawn[i];
    LevelMap map;
    map.rows = cells.rows;
    map.columns = cells.columns;
    map.block = cells.block;
    map.range = figure.common_range ? range : RangeOf(cells.values, figure, NameOf(figure.maps[i]));
    for (const double value : cells.values) {
      map.masked |= std::isnan(value);
      map.levels.push_back(std::isnan(value)
                               ? kMaskedLevel
                               : LevelAt(ShareOf(value, map.range, figure.logarithmic)));
    }
    map.smallest = std::numeric_limits<double>::infinity();
    map.largest = -map.smallest;
    for (const double value : figure.maps[i].values) {
      // NaN compares as neither.
      if (value < map.smallest) map.smallest = value;
      if (value > map.largest) map.largest = value;
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace cosformer::report
