// Maps, their axes and their colour bars, drawn where the layout has put them.
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "report/colour_map.h"
#include "report/heatmap.h"
#include "report/heatmap_layout.h"
#include "report/heatmap_levels.h"
#include "report/png.h"
#include "report/xml_text.h"

namespace cosformer::report {
namespace {

constexpr int64_t kMostSvgCells = 1024;  // a side: what a screen of twice the pixels shows
constexpr double kTickLength = 5;
constexpr double kHalfHeight = 0.35;  // of a letter, from its line, as a share of the font's size
constexpr const char* kFrame = "#666666";
constexpr const char* kInk = "#444444";
constexpr const char* kFaint = "#555555";

std::string Hex(const Rgb& colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

// `attributes` are those beyond the place, each with a space before it.
void AppendText(std::string& svg, double x, double y, std::string_view attributes,
                std::string_view text) {
  fmt::format_to(std::back_inserter(svg), "<text x=\"{:.2f}\" y=\"{:.2f}\"{}>{}</text>\n", x, y,
                 attributes, EscapeXml(text));
}

// Read from below.
void AppendTurnedText(std::string& svg, double x, double y, std::string_view attributes,
                      std::string_view text) {
  fmt::format_to(std::back_inserter(svg),
                 "<text transform=\"translate({:.2f} {:.2f}) rotate(-90)\"{}>{}</text>\n", x, y,
                 attributes, EscapeXml(text));
}

void AppendLine(std::string& svg, double x1, double y1, double x2, double y2) {
  fmt::format_to(std::back_inserter(svg),
                 "<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\"/>\n",
                 x1, y1, x2, y2, kFrame);
}

void AppendFrame(std::string& svg, double x, double y, double width, double height,
                 std::string_view fill) {
  fmt::format_to(std::back_inserter(svg),
                 "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" "
                 "stroke=\"{}\"/>\n",
                 x, y, width, height, fill, kFrame);
}

// The colours of all bars, from the lower end to the upper one.
void AppendGradient(std::string& svg) {
  constexpr int kStops = 32;
  svg += "<defs><linearGradient id=\"scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">";
  for (int i = 0; i <= kStops; ++i) {
    const int level = i * (kLevels - 1) / kStops;
    fmt::format_to(std::back_inserter(svg), "<stop offset=\"{:.4f}\" stop-color=\"{}\"/>",
                   level / (kLevels - 1.0), Hex(HeatmapPalette()[static_cast<size_t>(level)]));
  }
  svg += "</linearGradient></defs>\n";
}

// One path a colour, of runs of cells: shorter than a rectangle a cell.
void AppendCells(std::string& svg, const LevelMap& map, const MapPanel& panel, double top) {
  std::array<std::string, 256> paths;
  for (int64_t i = 0; i < map.rows; ++i) {
    const uint8_t* row = map.levels.data() + i * map.columns;
    for (int64_t j = 0; j < map.columns;) {
      int64_t end = j + 1;
      while (end < map.columns && row[end] == row[j]) ++end;
      fmt::format_to(std::back_inserter(paths[row[j]]), "M{0} {1}h{2}v1h-{2}z", j, i, end - j);
      j = end;
    }
  }
  // Without smoothing, which would let the page shine through between neighbours.
  fmt::format_to(std::back_inserter(svg),
                 "<g transform=\"translate({:.2f} {:.2f}) scale({:.6f} {:.6f})\" "
                 "shape-rendering=\"crispEdges\">\n",
                 panel.left, top, panel.width / static_cast<double>(map.columns),
                 panel.height / static_cast<double>(map.rows));
  for (size_t level = 0; level < paths.size(); ++level) {
    if (paths[level].empty()) continue;
    fmt::format_to(std::back_inserter(svg), "<path fill=\"{}\" d=\"{}\"/>\n",
                   Hex(HeatmapPalette()[level]), paths[level]);
  }
  svg += "</g>\n";
}

void AppendPicture(std::string& svg, const LevelMap& map, const MapPanel& panel, double top) {
  // Enlarged, cells keep their edges; made smaller, they must be averaged and not skipped.
  const bool enlarged = panel.width >= static_cast<double>(map.columns) &&
                        panel.height >= static_cast<double>(map.rows);
  fmt::format_to(std::back_inserter(svg),
                 "<image x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
                 "preserveAspectRatio=\"none\"{} href=\"data:image/png;base64,{}\"/>\n",
                 panel.left, top, panel.width, panel.height,
                 enlarged ? " style=\"image-rendering:pixelated\"" : "",
                 Base64(EncodePng({map.columns, map.rows, map.levels}, HeatmapPalette())));
}

void AppendAxes(std::string& svg, const Heatmap& map, const MapPanel& panel, double top) {
  const double bottom = top + panel.height;
  const double middle = kHalfHeight * panel.label_size;
  const std::string size = fmt::format(" font-size=\"{:.2f}\"", panel.label_size);
  const std::string title = fmt::format(" text-anchor=\"middle\" fill=\"{}\"", kInk);
  for (const MapMark& mark : panel.rows.marks) {
    const double y = top + mark.place * panel.height;
    if (!panel.rows.tokens) AppendLine(svg, panel.left - kTickLength, y, panel.left, y);
    AppendText(svg, panel.left - kHeatmapLabelGap, y + middle, size + " text-anchor=\"end\"",
               mark.label);
  }
  AppendTurnedText(svg, panel.left - kHeatmapLabelGap - panel.rows.widest - 13,
                   top + panel.height / 2, title, map.row_title);
  for (const MapMark& mark : panel.columns.marks) {
    const double x = panel.left + mark.place * panel.width;
    if (!panel.columns.tokens) AppendLine(svg, x, bottom, x, bottom + kTickLength);
    if (panel.upright) {
      AppendText(svg, x, bottom + kHeatmapLabelGap + 0.8 * panel.label_size,
                 size + " text-anchor=\"middle\"", mark.label);
    } else {
      AppendTurnedText(svg, x + middle, bottom + kHeatmapLabelGap, size + " text-anchor=\"end\"",
                       mark.label);
    }
  }
  const double labels = panel.upright ? kHeatmapSmallFont : panel.columns.widest;
  AppendText(svg, panel.left + panel.width / 2, bottom + kHeatmapLabelGap + labels + 17, title,
             map.column_title);
}

void AppendBar(std::string& svg, const HeatmapFigure& figure, const ColourBar& bar, double top) {
  const double right = bar.left + kHeatmapBarWidth;
  const double middle = kHalfHeight * kHeatmapSmallFont;
  const std::string size = fmt::format(" font-size=\"{:.0f}\"", kHeatmapSmallFont);
  AppendText(svg, bar.left, top - 10, fmt::format(" fill=\"{}\"", kInk), figure.value_title);
  AppendFrame(svg, bar.left, top, kHeatmapBarWidth, bar.height, "url(#scale)");
  for (const Tick& tick : bar.ticks) {
    const double y = top + (1 - ShareOf(tick.value, bar.range, figure.logarithmic)) * bar.height;
    AppendLine(svg, right, y, right + (tick.label.empty() ? 2.5 : kTickLength), y);
    if (tick.label.empty()) continue;
    AppendText(svg, right + kHeatmapLabelGap, y + middle, size, tick.label);
  }
  if (!bar.masked) return;
  const double y = top + bar.height + 14;
  AppendFrame(svg, bar.left, y, kHeatmapBarWidth, kHeatmapBarWidth,
              Hex(HeatmapPalette()[kMaskedLevel]));
  AppendText(svg, right + kHeatmapLabelGap, y + kHeatmapBarWidth / 2 + middle, size, "masked");
}

}  // namespace

std::string HeatmapSvg(const HeatmapFigure& figure) {
  const std::vector<LevelMap> maps = LevelsOf(figure, kMostSvgCells);
  const HeatmapLayout layout = LayOut(figure, maps);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{2:.0f}\" fill=\"#222222\">\n"
      "<title>{3}</title>\n",
      layout.width, layout.height, kHeatmapFont, EscapeXml(figure.title));
  AppendGradient(svg);
  svg += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  double y = 28;
  if (!figure.title.empty()) {
    AppendText(svg, 20, y, " font-size=\"17\" font-weight=\"bold\"", figure.title);
    y += 20;
  }
  const std::string faint = fmt::format(" fill=\"{}\"", kFaint);
  if (!figure.subtitle.empty()) AppendText(svg, 20, y, faint, figure.subtitle);
  for (const MapPanel& panel : layout.panels) {
    const Heatmap& map = figure.maps[panel.map];
    AppendText(svg, panel.left, layout.top - 28, " font-size=\"13.5\" font-weight=\"bold\"",
               map.title);
    AppendText(svg, panel.left, layout.top - 10,
               fmt::format(" font-size=\"{:.0f}\"{}", kHeatmapSmallFont, faint), panel.facts);
    if (Embedded(maps[panel.map])) {
      AppendPicture(svg, maps[panel.map], panel, layout.top);
    } else {
      AppendCells(svg, maps[panel.map], panel, layout.top);
    }
    AppendFrame(svg, panel.left, layout.top, panel.width, panel.height, "none");
    AppendAxes(svg, map, panel, layout.top);
    if (panel.bar) AppendBar(svg, figure, *panel.bar, layout.top);
  }
  return svg + "</svg>\n";
}

}  // namespace cosformer::report
