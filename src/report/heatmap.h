// Attention maps as pictures: a cell a pair of query and key, its colour the weight. A figure is a
// row of maps to be compared, as SVG with axes, tokens and colour bars, or as PNG, the maps alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cosformer::report {

struct Heatmap {
  std::string title;
  int64_t rows = 0;
  int64_t columns = 0;
  // [rows, columns], the first row at the top. NaN is a masked cell, as a causal map has where the
  // key comes after the query: drawn grey, and part of no range and no mean.
  std::vector<float> values;
  // Empty, or one a row (column): tokens as text. More than 64 are not drawn, nor are those of a
  // side that is averaged; positions, counted from 0, stand there instead.
  std::vector<std::string> row_labels;
  std::vector<std::string> column_labels;
  std::string row_title = "query";
  std::string column_title = "key";
};

struct HeatmapFigure {
  std::string title;
  std::string subtitle;
  std::vector<Heatmap> maps;  // from left to right
  // Linear: colours from 0 to the largest value (from the smallest to 0 as well, where some are
  // negative), so that a colour's place on the bar is its share of the weight. Logarithmic: from
  // the smallest value to the largest. Where that is more than six decades, or a value is 0, it
  // begins at a power of ten, and what is smaller has the colour of the lower end.
  bool logarithmic = false;
  // The share of cells, from 0 to less than 1, that may lie above the range: they have the colour
  // of its upper end. The first query of a causal map gives all its weight to one key, so that on a
  // linear scale all that is of interest can be dark; 0.01 brings it to light.
  double saturated = 0;
  bool common_range = false;  // one range and one colour bar for all maps; otherwise each its own
  std::string value_title = "weight";
};

// Both throw Error, naming the map, if there is none, if its sizes are not positive, if there are
// not rows * columns values or another number of labels than of rows (columns) or none, if a value
// is infinite or on a logarithmic scale negative, and if there is nothing to draw: every cell is
// masked, or on a logarithmic scale none is positive. And if `saturated` is out of its range.

// The text of an SVG file. Maps of one shape are drawn in one size, in square cells if that leaves
// no side too narrow. Maps of more than 200 x 200 cells are embedded as a PNG, so that the file
// stays small; one longer than 1,024 on a side is averaged first, over square blocks that are the
// smallest to make it fit. Blocks at the right and the bottom may be smaller; masked cells are left
// out of the mean, and a block of nothing else is masked. Colours range over the means.
std::string HeatmapSvg(const HeatmapFigure& figure);

// The bytes of a PNG file: the maps on white, without text. A cell is a square of a whole number of
// pixels, as many as keep the longer side within 1,024; a side of few cells is stretched to 64
// pixels. A map longer than 1,024 has one pixel a cell, one longer than 2,048 is averaged as above.
// Throws Error also if there are more maps than a PNG has room for: some 940 of 1,024 pixels.
std::string HeatmapPng(const HeatmapFigure& figure);

}  // namespace cosformer::report
