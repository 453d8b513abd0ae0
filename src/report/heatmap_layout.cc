// From labels to sizes to places: each step needs the one before.
#include "report/heatmap_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "report/units.h"
#include "report/xml_text.h"

namespace cosformer::report {
namespace {

constexpr int64_t kMostRectangles = 200 * 200;  // some 16 bytes each, where a PNG has one
constexpr int64_t kMostLabels = 64;
constexpr size_t kLabelLength = 14;  // characters

constexpr double kMapSide = 420;        // of a map, its longer one
constexpr double kEmbeddedSide = 512;   // one pixel a cell at that common length
constexpr double kNarrowest = 1.0 / 8;  // of the longer side
constexpr double kLabelPitch = 10.5;    // the least from token to token
constexpr double kAxisTitle = 34;       // the room of one, beyond the labels
constexpr double kBarGap = 20;
constexpr double kShortestBar = 160;  // for up to nine labels
constexpr double kLineHeight = 1.3;   // of the size of the font
constexpr double kPanelGap = 28;
constexpr double kBoldWidth = 1.1;  // of that of ordinary letters

// `positions` are those of the heatmap, of which `block` fall on each of the `cells` drawn.
MapSide MakeSide(const std::vector<std::string>& labels, int64_t positions, int64_t block,
                 int64_t cells) {
  MapSide side;
  side.tokens = !labels.empty() && positions <= kMostLabels && block == 1;
  const auto add = [&](double position, std::string label) {
    side.marks.push_back({(position + 0.5) / static_cast<double>(cells * block), std::move(label)});
  };
  if (side.tokens) {
    for (size_t i = 0; i < labels.size(); ++i) {
      add(static_cast<double>(i), VisibleText(labels[i], kLabelLength));
    }
  } else if (positions == 1) {
    add(0, "0");
  } else {
    for (const Tick& tick : ChooseTicks({}, 0, static_cast<double>(positions - 1))) {
      // Few positions have ticks between them.
      if (tick.value == std::round(tick.value)) add(tick.value, tick.label);
    }
  }
  return side;
}

void Measure(MapSide& side, double font_size) {
  side.widest = 0;
  for (const MapMark& mark : side.marks) {
    side.widest = std::max(side.widest, TextWidth(mark.label, font_size));
  }
}

// Leaves out marks whose labels, `room` long, would touch each other on a side of `length`.
void Thin(MapSide& side, double length, double room) {
  if (side.tokens || side.marks.size() < 2) return;
  const double pitch = length * (side.marks[1].place - side.marks[0].place);
  const auto stride = static_cast<size_t>(std::ceil(room / pitch));
  std::vector<MapMark> kept;
  for (size_t i = 0; i < side.marks.size(); i += stride) kept.push_back(side.marks[i]);
  side.marks = std::move(kept);
}

std::string FactsOf(const Heatmap& map, const LevelMap& levels) {
  return fmt::format(
      "{} × {}{}, from {:.3g} to {:.3g}", FormatInteger(map.rows), FormatInteger(map.columns),
      levels.block == 1 ? "" : fmt::format(" in means of {} × {}", levels.block, levels.block),
      levels.smallest, levels.largest);
}

// Lengths are settled for all maps at once, so that those of one shape have one size.
void SetSizes(std::vector<MapPanel>& panels, std::span<const LevelMap> maps) {
  double longer = kMapSide;
  bool tokens = false;
  for (const MapPanel& panel : panels) {
    if (Embedded(maps[panel.map])) longer = kEmbeddedSide;
    tokens |= panel.rows.tokens || panel.columns.tokens;
  }
  for (MapPanel& panel : panels) {
    const LevelMap& map = maps[panel.map];
    const int64_t longest = std::max(map.rows, map.columns);
    double cell = longer / static_cast<double>(longest);
    if (tokens && longest <= kMostLabels) cell = std::max(cell, kLabelPitch);
    const auto length = [&](const MapSide& side, int64_t cells) {
      const double pitch = std::max(cell, side.tokens ? kLabelPitch : 0);
      const double whole = std::max(pitch * static_cast<double>(cells), longer * kNarrowest);
      if (side.tokens) {
        panel.label_size = std::min(panel.label_size, 0.9 * whole / static_cast<double>(cells));
      }
      return whole;
    };
    panel.height = length(panel.rows, map.rows);
    panel.width = length(panel.columns, map.columns);
    Measure(panel.rows, panel.label_size);
    Measure(panel.columns, panel.label_size);
    Thin(panel.rows, panel.height, kLineHeight * panel.label_size);
    Thin(panel.columns, panel.width, panel.columns.widest + panel.label_size);
    panel.upright = !panel.columns.tokens ||
                    panel.columns.widest <= 0.9 * panel.width / static_cast<double>(map.columns);
  }
}

// The ends where values are cut off say so.
std::vector<Tick> BarTicks(const ColourRange& range, bool logarithmic, double height) {
  const Axis axis{"", logarithmic ? Scale::kLog10 : Scale::kLinear, ""};
  std::vector<Tick> ticks = ChooseTicks(axis, range.low, range.high);
  if (range.below) ticks.front().label = "≤ " + ticks.front().label;
  if (range.above) {
    std::erase_if(ticks, [&](const Tick& tick) {
      return (1 - ShareOf(tick.value, range, logarithmic)) * height <
             kLineHeight * kHeatmapSmallFont;
    });
    ticks.push_back({range.high, fmt::format("≥ {:.3g}", range.high)});
  }
  return ticks;
}

double BarWidth(const ColourBar& bar) {
  double widest = TextWidth("masked", kHeatmapSmallFont);
  for (const Tick& tick : bar.ticks) {
    widest = std::max(widest, TextWidth(tick.label, kHeatmapSmallFont));
  }
  return kHeatmapBarWidth + kHeatmapLabelGap + widest;
}

}  // namespace

bool Embedded(const LevelMap& map) { return map.rows * map.columns > kMostRectangles; }

HeatmapLayout LayOut(const HeatmapFigure& figure, std::span<const LevelMap> maps) {
  HeatmapLayout layout;
  bool masked = false;
  for (size_t i = 0; i < maps.size(); ++i) {
    const Heatmap& map = figure.maps[i];
    MapPanel& panel = layout.panels.emplace_back();
    panel.map = i;
    panel.facts = FactsOf(map, maps[i]);
    panel.rows = MakeSide(map.row_labels, map.rows, maps[i].block, maps[i].rows);
    panel.columns = MakeSide(map.column_labels, map.columns, maps[i].block, maps[i].columns);
    masked |= maps[i].masked;
  }
  SetSizes(layout.panels, maps);

  // The same for all panels, so that maps, titles and axes align.
  double row_labels = 0, column_labels = kHeatmapSmallFont;
  for (const MapPanel& panel : layout.panels) {
    row_labels = std::max(row_labels, panel.rows.widest);
    if (!panel.upright) column_labels = std::max(column_labels, panel.columns.widest);
  }
  layout.top = 56 + (figure.title.empty() ? 0 : 26) + (figure.subtitle.empty() ? 0 : 20);
  for (MapPanel& panel : layout.panels) {
    panel.left = layout.width + kAxisTitle + row_labels + kHeatmapLabelGap;
    double right = panel.left + std::max(panel.width, TextWidth(panel.facts, kHeatmapSmallFont));
    double below = panel.height + kHeatmapLabelGap + column_labels + kAxisTitle;
    if (!figure.common_range || panel.map + 1 == maps.size()) {
      ColourBar& bar = panel.bar.emplace();
      bar.left = right + kBarGap;
      bar.height = std::max(kShortestBar, panel.height);
      bar.range = maps[panel.map].range;
      bar.ticks = BarTicks(bar.range, figure.logarithmic, bar.height);
      bar.masked = figure.common_range ? masked : maps[panel.map].masked;
      right = bar.left + std::max(BarWidth(bar), TextWidth(figure.value_title, kHeatmapFont));
      below = std::max(below, bar.height + 44);
    }
    right =
        std::max(right, panel.left + kBoldWidth * TextWidth(figure.maps[panel.map].title, 13.5));
    layout.width = right + kPanelGap;
    layout.height = std::max(layout.height, layout.top + below);
  }
  layout.width = std::max({layout.width, 40 + kBoldWidth * TextWidth(figure.title, 17),
                           40 + TextWidth(figure.subtitle, kHeatmapFont)});
  return layout;
}

}  // namespace cosformer::report
