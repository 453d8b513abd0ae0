// From panels to the figure. All coordinates are pixels of the SVG file.
#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "cosformer/error.h"
#include "report/xml_text.h"

namespace cosformer::report {
namespace {

// Pixels. A panel of this shape is readable at half the width of a README.
constexpr double kPlotWidth = 420;
constexpr double kPlotHeight = 280;
constexpr double kLeft = 82;  // tick labels and the title of the y axis
constexpr double kRight = 34;
constexpr double kRowGap = 36;  // between rows, with room for the titles of panels
constexpr double kFontSize = 12;
constexpr double kLegendRow = 20;
constexpr double kLegendSample = 38;  // the piece of line before a name
constexpr double kLegendLeft = 40;    // it begins that far left of the plot
constexpr double kLegendWidth = kLegendLeft + kPlotWidth + kRight;

// Okabe and Ito's palette without its yellow, which is too light on white.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#333333", "#56b4e9", "#e69f00"};
constexpr std::array<const char*, 7> kDashes = {"",         "7 4",         "2 3",        "9 3 2 3",
                                                "12 4 4 4", "9 3 2 3 2 3", "4 4 1 4 1 4"};

// Of the marker or the dash: when the colours come again, each has another one.
size_t ShapeOf(int place) {
  static_assert(kDashes.size() == kColours.size());
  const auto at = static_cast<size_t>(place);
  return (at + at / kColours.size()) % kColours.size();
}

// Beyond it the width of a range overflows.
constexpr double kLargest = 1e300;

bool Drawable(const Point& point) {
  return std::abs(point.x) <= kLargest && std::abs(point.y) <= kLargest;
}

bool HasBar(const Point& point) {
  return std::abs(point.low) <= kLargest && std::abs(point.high) <= kLargest;
}

double Transform(Scale scale, double value) {
  switch (scale) {
    case Scale::kLinear:
      return value;
    case Scale::kLog10:
      return std::log10(value);
    case Scale::kLog2:
      return std::log2(value);
  }
  return value;
}

double Invert(Scale scale, double value) {
  switch (scale) {
    case Scale::kLinear:
      return value;
    case Scale::kLog10:
      return std::pow(10.0, value);
    case Scale::kLog2:
      return std::exp2(value);
  }
  return value;
}

// What an axis shows, after its transform.
struct Range {
  double low = 0;
  double high = 0;
};

Range PaddedRange(Scale scale, double smallest, double largest) {
  Range range{Transform(scale, smallest), Transform(scale, largest)};
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  double margin = 0.05 * (range.high - range.low);
  // One value, or values that differ by rounding alone, still need room around them.
  if (range.high - range.low <= 1e-9 * size || range.high == range.low) {
    margin = scale == Scale::kLinear ? (size > 0 ? 0.5 * size : 1.0) : 0.75;
  }
  range.low -= margin;
  range.high += margin;
  return range;
}

void AppendMarker(std::string& svg, int hue, double x, double y) {
  const char* colour = kColours[static_cast<size_t>(hue) % kColours.size()];
  const auto out = std::back_inserter(svg);
  const auto polygon = [&](std::string_view points) {
    fmt::format_to(out,
                   "<polygon transform=\"translate({:.2f} {:.2f})\" points=\"{}\" fill=\"{}\"/>\n",
                   x, y, points, colour);
  };
  const auto stroke = [&](std::string_view path) {
    fmt::format_to(out,
                   "<path transform=\"translate({:.2f} {:.2f})\" d=\"{}\" stroke=\"{}\" "
                   "stroke-width=\"2.2\" fill=\"none\"/>\n",
                   x, y, path, colour);
  };
  switch (ShapeOf(hue)) {
    case 0:
      fmt::format_to(out, "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"4\" fill=\"{}\"/>\n", x, y,
                     colour);
      break;
    case 1:
      polygon("-3.8,-3.8 3.8,-3.8 3.8,3.8 -3.8,3.8");
      break;
    case 2:
      polygon("0,-5 4.6,3.6 -4.6,3.6");
      break;
    case 3:
      polygon("0,-5.2 5.2,0 0,5.2 -5.2,0");
      break;
    case 4:
      stroke("M-4,-4 L4,4 M-4,4 L4,-4");
      break;
    case 5:
      polygon("0,5 4.6,-3.6 -4.6,-3.6");
      break;
    default:
      stroke("M-5,0 L5,0 M0,-5 L0,5");
      break;
  }
}

struct Look {
  int hue = 0;
  int dash = 0;
  double width = 0;
  double opacity = 0;
};

Look LookOf(const Panel& panel, size_t index) {
  const Series& series = panel.series[index];
  const int place = static_cast<int>(index);
  return {series.hue < 0 ? place : series.hue, series.dash < 0 ? place : series.dash, series.width,
          series.opacity};
}

std::string StrokeOf(const Look& look) {
  const char* dash = kDashes[ShapeOf(look.dash)];
  return fmt::format(
      "stroke=\"{}\" stroke-width=\"{:g}\" fill=\"none\" stroke-linejoin=\"round\"{}{}",
      kColours[static_cast<size_t>(look.hue) % kColours.size()], look.width,
      *dash == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash),
      look.opacity == 1 ? "" : fmt::format(" stroke-opacity=\"{:g}\"", look.opacity));
}

// Rows of legend entries that fit under the plot: indices of series.
std::vector<std::vector<size_t>> LegendRows(const Panel& panel) {
  // Entries stand in columns as wide as the widest, so that names align.
  double widest = 0;
  for (const Series& series : panel.series) {
    widest = std::max(widest, TextWidth(series.name, kFontSize));
  }
  const double entry = kLegendSample + widest + 18;
  const size_t columns = std::max<size_t>(1, static_cast<size_t>(kLegendWidth / entry));
  std::vector<std::vector<size_t>> rows;
  for (size_t i = 0; i < panel.series.size(); ++i) {
    if (panel.series[i].name.empty()) continue;
    if (rows.empty() || rows.back().size() == columns) rows.emplace_back();
    rows.back().push_back(i);
  }
  return rows;
}

void CheckPanel(const Panel& panel) {
  bool drawable = false;
  for (const Series& series : panel.series) {
    for (const Point& point : series.points) {
      if (!Drawable(point)) continue;
      drawable = true;
      const double lowest = HasBar(point) ? std::min(point.y, point.low) : point.y;
      for (const auto& [axis, value] :
           {std::pair(&panel.x, point.x), std::pair(&panel.y, lowest)}) {
        if (axis->scale == Scale::kLinear || value > 0) continue;
        throw Error(fmt::format(
            "cannot draw the value {} of \"{}\" on the logarithmic axis \"{}\": it must "
            "be positive",
            value, series.name, axis->title));
      }
    }
  }
  if (!drawable) {
    throw Error(
        fmt::format("nothing to draw in the plot \"{}\": it has no finite point", panel.title));
  }
}

class PanelWriter {
 public:
  PanelWriter(const Panel& panel, double left, double top) : panel_(panel), left_(left), top_(top) {
    double x_low = kLargest, x_high = -kLargest, y_low = kLargest, y_high = -kLargest;
    for (const Series& series : panel.series) {
      for (const Point& point : series.points) {
        if (!Drawable(point)) continue;
        x_low = std::min(x_low, point.x);
        x_high = std::max(x_high, point.x);
        y_low = std::min(y_low, point.y);
        y_high = std::max(y_high, point.y);
        if (!HasBar(point)) continue;
        y_low = std::min(y_low, point.low);
        y_high = std::max(y_high, point.high);
      }
    }
    x_range_ = PaddedRange(panel.x.scale, x_low, x_high);
    y_range_ = PaddedRange(panel.y.scale, y_low, y_high);
  }

  void Append(std::string& svg) const {
    AppendAxes(svg);
    for (size_t i = 0; i < panel_.series.size(); ++i) AppendSeries(svg, i);
    AppendLegend(svg);
  }

 private:
  double X(double value) const {
    return left_ + kPlotWidth * (Transform(panel_.x.scale, value) - x_range_.low) /
                       (x_range_.high - x_range_.low);
  }
  double Y(double value) const {
    return top_ + kPlotHeight * (y_range_.high - Transform(panel_.y.scale, value)) /
                      (y_range_.high - y_range_.low);
  }

  void AppendAxes(std::string& svg) const {
    const auto out = std::back_inserter(svg);
    const double bottom = top_ + kPlotHeight;
    const double right = left_ + kPlotWidth;
    fmt::format_to(out,
                   "<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"13.5\" font-weight=\"bold\">{}"
                   "</text>\n",
                   left_, top_ - 12, EscapeXml(panel_.title));
    const auto line = [&](double x1, double y1, double x2, double y2, const char* colour) {
      fmt::format_to(out,
                     "<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" "
                     "stroke=\"{}\"/>\n",
                     x1, y1, x2, y2, colour);
    };
    constexpr const char* kGrid = "#e3e3e3";
    constexpr const char* kFrame = "#666666";
    for (const Tick& tick : TicksOf(panel_.x, x_range_)) {
      const double x = X(tick.value);
      if (!tick.label.empty()) line(x, top_, x, bottom, kGrid);
      line(x, bottom, x, bottom + (tick.label.empty() ? 3 : 5), kFrame);
      if (tick.label.empty()) continue;
      fmt::format_to(out, "<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"middle\">{}</text>\n", x,
                     bottom + 19, EscapeXml(tick.label));
    }
    for (const Tick& tick : TicksOf(panel_.y, y_range_)) {
      const double y = Y(tick.value);
      if (!tick.label.empty()) line(left_, y, right, y, kGrid);
      line(left_ - (tick.label.empty() ? 3 : 5), y, left_, y, kFrame);
      if (tick.label.empty()) continue;
      fmt::format_to(out, "<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"end\">{}</text>\n",
                     left_ - 9, y + 4, EscapeXml(tick.label));
    }
    line(left_, bottom, right, bottom, kFrame);
    line(left_, top_, left_, bottom, kFrame);
    fmt::format_to(out,
                   "<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"middle\" fill=\"#444444\">{}"
                   "</text>\n",
                   left_ + kPlotWidth / 2, bottom + 39, EscapeXml(panel_.x.title));
    fmt::format_to(out,
                   "<text transform=\"translate({:.2f} {:.2f}) rotate(-90)\" "
                   "text-anchor=\"middle\" fill=\"#444444\">{}</text>\n",
                   left_ - kLeft + 14, top_ + kPlotHeight / 2, EscapeXml(panel_.y.title));
  }

  static std::vector<Tick> TicksOf(const Axis& axis, const Range& range) {
    return ChooseTicks(axis, Invert(axis.scale, range.low), Invert(axis.scale, range.high));
  }

  void AppendSeries(std::string& svg, size_t index) const {
    const auto out = std::back_inserter(svg);
    const Series& series = panel_.series[index];
    const Look look = LookOf(panel_, index);
    std::string path;
    bool pen_down = false;
    for (const Point& point : series.points) {
      if (!Drawable(point)) {
        pen_down = false;
        continue;
      }
      fmt::format_to(std::back_inserter(path), "{}{:.2f},{:.2f} ", pen_down ? 'L' : 'M', X(point.x),
                     Y(point.y));
      pen_down = true;
    }
    if (path.empty()) return;
    path.pop_back();
    fmt::format_to(out, "<path d=\"{}\" {}/>\n", path, StrokeOf(look));
    for (const Point& point : series.points) {
      if (Drawable(point) && HasBar(point)) AppendBar(svg, look, point);
    }
    if (!series.markers) return;
    // A curve of thousands of points would vanish under its markers: some are enough to tell it.
    constexpr size_t kMostMarkers = 24;
    const size_t stride = (series.points.size() + kMostMarkers - 1) / kMostMarkers;
    for (size_t i = 0; i < series.points.size(); i += stride) {
      const Point& point = series.points[i];
      if (Drawable(point) && point.marker) AppendMarker(svg, look.hue, X(point.x), Y(point.y));
    }
  }

  void AppendBar(std::string& svg, const Look& look, const Point& point) const {
    constexpr double kEnd = 4;  // pixels to either side
    const double x = X(point.x), low = Y(point.low), high = Y(point.high);
    fmt::format_to(std::back_inserter(svg),
                   "<path class=\"bar\" d=\"M{0:.2f},{3:.2f} L{2:.2f},{3:.2f} M{1:.2f},{3:.2f} "
                   "L{1:.2f},{4:.2f} M{0:.2f},{4:.2f} L{2:.2f},{4:.2f}\" stroke=\"{5}\" "
                   "fill=\"none\"/>\n",
                   x - kEnd, x, x + kEnd, low, high,
                   kColours[static_cast<size_t>(look.hue) % kColours.size()]);
  }

  void AppendLegend(std::string& svg) const {
    const auto rows = LegendRows(panel_);
    if (rows.empty()) return;
    const double column = kLegendWidth / static_cast<double>(rows[0].size());
    for (size_t row = 0; row < rows.size(); ++row) {
      for (size_t i = 0; i < rows[row].size(); ++i) {
        const Look look = LookOf(panel_, rows[row][i]);
        const double x = left_ - kLegendLeft + column * static_cast<double>(i);
        const double y = top_ + kPlotHeight + 64 + kLegendRow * static_cast<double>(row);
        fmt::format_to(std::back_inserter(svg),
                       "<path d=\"M{:.2f},{:.2f} L{:.2f},{:.2f}\" {}/>\n"
                       "<text x=\"{:.2f}\" y=\"{:.2f}\">{}</text>\n",
                       x, y, x + kLegendSample - 8, y, StrokeOf(look), x + kLegendSample, y + 4,
                       EscapeXml(panel_.series[rows[row][i]].name));
        if (!panel_.series[rows[row][i]].markers) continue;
        AppendMarker(svg, look.hue, x + (kLegendSample - 8) / 2, y);
      }
    }
  }

  const Panel& panel_;
  const double left_;
  const double top_;
  Range x_range_;
  Range y_range_;
};

}  // namespace

std::vector<int> DistinctHues(std::span<const int> usual) {
  constexpr int kCount = static_cast<int>(kColours.size());
  std::vector<int> hues(usual.size(), -1);
  const auto free = [&](int hue) { return std::count(hues.begin(), hues.end(), hue) == 0; };
  size_t left = usual.size();
  for (int round = 0; left > 0; ++round) {
    const auto take = [&](size_t i, int colour) {
      const int hue = round * kCount + colour;
      if (hues[i] >= 0 || !free(hue)) return;
      hues[i] = hue;
      --left;
    };
    for (size_t i = 0; i < usual.size(); ++i) take(i, usual[i] % kCount);
    // What is left over takes what is left over.
    for (size_t i = 0; i < usual.size(); ++i) {
      for (int colour = 0; colour < kCount; ++colour) take(i, colour);
    }
  }
  return hues;
}

std::string RenderSvg(const Figure& figure) {
  if (figure.panels.empty()) {
    throw Error(fmt::format("nothing to draw in the figure \"{}\": it has no panel", figure.title));
  }
  size_t legend_rows = 0;
  for (const Panel& panel : figure.panels) {
    CheckPanel(panel);
    legend_rows = std::max(legend_rows, LegendRows(panel).size());
  }
  const double panel_width = kLeft + kPlotWidth + kRight;
  const size_t panels = figure.panels.size();
  const size_t columns =
      figure.columns > 0 ? std::min(panels, static_cast<size_t>(figure.columns)) : panels;
  const size_t rows = (panels + columns - 1) / columns;
  const double width = panel_width * static_cast<double>(columns);
  const double top = 42 + (figure.title.empty() ? 0 : 26) + (figure.subtitle.empty() ? 0 : 20);
  const double panel_height = kPlotHeight + 58 + kLegendRow * static_cast<double>(legend_rows);
  const double row_height = panel_height + kRowGap;
  const double height = top + row_height * static_cast<double>(rows - 1) + panel_height;

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{2:.0f}\" fill=\"#222222\">\n"
      "<title>{3}</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height, kFontSize, EscapeXml(figure.title));
  double y = 28;
  if (!figure.title.empty()) {
    fmt::format_to(std::back_inserter(svg),
                   "<text x=\"20\" y=\"{:.0f}\" font-size=\"17\" font-weight=\"bold\">{}</text>\n",
                   y, EscapeXml(figure.title));
    y += 20;
  }
  if (!figure.subtitle.empty()) {
    fmt::format_to(std::back_inserter(svg),
                   "<text x=\"20\" y=\"{:.0f}\" fill=\"#555555\">{}</text>\n", y,
                   EscapeXml(figure.subtitle));
  }
  for (size_t i = 0; i < panels; ++i) {
    PanelWriter(figure.panels[i], kLeft + panel_width * static_cast<double>(i % columns),
                top + row_height * static_cast<double>(i / columns))
        .Append(svg);
  }
  return svg + "</svg>\n";
}

}  // namespace cosformer::report
