// Line plots as SVG: a figure is rows of panels, a panel some series over two axes. Colours are
// told apart by colour-blind readers, markers and dashes also in black and white. No fonts or
// scripts from elsewhere, so a file shows the same in a browser, a README and a paper.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

namespace cosformer::report {

enum class Scale { kLinear, kLog10, kLog2 };

struct Axis {
  std::string title;
  Scale scale = Scale::kLinear;
  // Given, the ticks carry it with an SI prefix: "20 ms"; "B" with a binary one, as FormatBytes()
  // has: "256 MiB". Otherwise they are plain numbers.
  std::string unit;
};

struct Point {
  double x = 0;
  double y = 0;
  bool marker = true;  // false where the line only passes: nothing was measured there
  // The ends of an interval around y, drawn as a bar where both are finite.
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

struct Series {
  std::string name;  // empty: not in the legend
  // In drawing order. A NaN or infinite coordinate leaves a gap.
  std::vector<Point> points;
  // Series that share a hue share colour and marker; those that share a dash are broken alike.
  // Both count from 0; after seven, colours come again with other markers and dashes. -1 takes the
  // place in the panel.
  int hue = -1;
  int dash = -1;
  bool markers = true;
  double width = 2;    // of the line, in pixels
  double opacity = 1;  // of the line: less puts it behind the others
};

struct Panel {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Series> series;
};

struct Figure {
  std::string title;
  std::string subtitle;
  std::vector<Panel> panels;
  int columns = 0;  // panels side by side; 0: all
};

// Hues for what is drawn together, all of them different, from those that each usually has: it
// keeps its own unless one before it has that colour; then it gets the first colour that is free,
// and once all are taken a colour again with another marker.
std::vector<int> DistinctHues(std::span<const int> usual);

// The figure as the text of an SVG file. Throws Error, naming the panel, if there is nothing to
// draw in it, and naming the series, if a value is not positive on a logarithmic axis.
std::string RenderSvg(const Figure& figure);

struct Tick {
  double value = 0;
  std::string label;  // empty for the small ticks between
};

// Ticks at round numbers within [low, high]; low < high, both positive on a logarithmic axis. At
// least two of them have labels.
std::vector<Tick> ChooseTicks(const Axis& axis, double low, double high);

}  // namespace cosformer::report
