// Where everything in an SVG file of heatmaps stands. All coordinates are pixels of the file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/heatmap.h"
#include "report/heatmap_levels.h"
#include "report/plot.h"

namespace cosformer::report {

inline constexpr double kHeatmapFont = 12;
inline constexpr double kHeatmapSmallFont = 11;  // numbers and tokens
inline constexpr double kHeatmapLabelGap = 9;    // from a map or a bar to its labels
inline constexpr double kHeatmapBarWidth = 15;

struct MapMark {
  double place = 0;  // of the middle of its cell, as a share of the side
  std::string label;
};

// What stands along one side of a map.
struct MapSide {
  std::vector<MapMark> marks;
  bool tokens = false;  // a mark a cell, without a tick
  double widest = 0;    // of the labels
};

struct ColourBar {
  double left = 0;  // its top is the map's
  double height = 0;
  ColourRange range;
  std::vector<Tick> ticks;
  bool masked = false;  // the legend names masked cells
};

struct MapPanel {
  size_t map = 0;     // its place in the figure
  std::string facts;  // the line under the title
  MapSide rows;
  MapSide columns;
  double left = 0;  // of the map itself
  double width = 0;
  double height = 0;
  double label_size = kHeatmapSmallFont;
  bool upright = true;  // the labels of columns: those of tokens that are wider than a cell lie
  std::optional<ColourBar> bar;
};

struct HeatmapLayout {
  std::vector<MapPanel> panels;
  double top = 0;  // of all maps
  double width = 0;
  double height = 0;
};

// Whether a map is drawn as a PNG inside of the SVG file.
bool Embedded(const LevelMap& map);

// `maps` are those of the figure.
HeatmapLayout LayOut(const HeatmapFigure& figure, std::span<const LevelMap> maps);

}  // namespace cosformer::report
