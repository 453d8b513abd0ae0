// Maps beside each other on a white page, in pixels.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/colour_map.h"
#include "report/heatmap.h"
#include "report/heatmap_levels.h"
#include "report/png.h"

namespace cosformer::report {
namespace {

constexpr int64_t kMostPngCells = 2048;  // a side
constexpr int64_t kPngSide = 1024;
constexpr int64_t kShortestSide = 64;
constexpr int64_t kMargin = 16;
constexpr int64_t kGap = 32;

// A map, and the pixels of a cell of it.
struct Placed {
  const LevelMap& map;
  int64_t cell_width = 0;
  int64_t cell_height = 0;

  int64_t Width() const { return map.columns * cell_width; }
  int64_t Height() const { return map.rows * cell_height; }
};

Placed Place(const LevelMap& map) {
  const int64_t cell = std::max<int64_t>(1, kPngSide / std::max(map.rows, map.columns));
  const auto stretched = [cell](int64_t cells) {
    return std::max(cell, (kShortestSide + cells - 1) / cells);
  };
  return {map, stretched(map.columns), stretched(map.rows)};
}

void Draw(const Placed& placed, int64_t left, int64_t top, Picture& picture) {
  for (int64_t y = 0; y < placed.Height(); ++y) {
    const uint8_t* row = placed.map.levels.data() + y / placed.cell_height * placed.map.columns;
    uint8_t* line = picture.pixels.data() + (top + y) * picture.width + left;
    for (int64_t j = 0; j < placed.map.columns; ++j) {
      line = std::fill_n(line, placed.cell_width, row[j]);
    }
  }
}

}  // namespace

std::string HeatmapPng(const HeatmapFigure& figure) {
  const std::vector<LevelMap> maps = LevelsOf(figure, kMostPngCells);
  Picture picture;
  picture.width = 2 * kMargin - kGap;
  std::vector<Placed> places;
  for (const LevelMap& map : maps) {
    places.push_back(Place(map));
    picture.width += kGap + places.back().Width();
    picture.height = std::max(picture.height, 2 * kMargin + places.back().Height());
  }
  CheckPngSize(picture.width, picture.height);
  picture.pixels.assign(static_cast<size_t>(picture.width * picture.height), kPageLevel);
  int64_t left = kMargin;
  for (const Placed& placed : places) {
    Draw(placed, left, kMargin, picture);
    left += placed.Width() + kGap;
  }
  return EncodePng(picture, HeatmapPalette());
}

}  // namespace cosformer::report
