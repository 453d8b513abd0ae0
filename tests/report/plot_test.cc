// Plots of ordinary, odd and missing data.
#include "report/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contains.h"
#include "svg_reader.h"

namespace cosformer::report {
namespace {

using cosformer::testing::Contains;
using Texts = std::vector<std::string>;

constexpr double kNanPoint = std::numeric_limits<double>::quiet_NaN();

Figure PlotOf(std::vector<Point> points, Scale scale = Scale::kLinear) {
  Panel panel;
  panel.title = "panel";
  panel.x.scale = panel.y.scale = scale;
  panel.series.push_back({"line", std::move(points), -1, -1});
  return {"title", "subtitle", {panel}};
}

std::string PlotMessageOf(const Figure& figure) {
  return cosformer::testing::MessageOf([&figure] { RenderSvg(figure); });
}

std::vector<std::string> Labels(const Axis& axis, double low, double high) {
  std::vector<std::string> labels;
  for (const Tick& tick : ChooseTicks(axis, low, high)) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  return labels;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PlotTest, LinearTicksAreRoundNumbers) {
  EXPECT_EQ(Labels({}, 0, 10), (Texts{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(Labels({}, -0.11, 0.31), (Texts{"-0.1", "0", "0.1", "0.2", "0.3"}));
  EXPECT_EQ(Labels({}, 0, 50000), (Texts{"0", "10,000", "20,000", "30,000", "40,000", "50,000"}));
}

TEST(PlotTest, TicksOfNearbyLargeNumbersDiffer) {
  const std::vector<std::string> labels = Labels({}, 1e9, 1e9 + 5);
  for (size_t i = 1; i < labels.size(); ++i) EXPECT_NE(labels[i - 1], labels[i]);
}

TEST(PlotTest, LogarithmicTicksArePowersWithUnits) {
  EXPECT_EQ(Labels({"", Scale::kLog10, "s"}, 0.5e-3, 20),
            (Texts{"1 ms", "10 ms", "100 ms", "1 s", "10 s"}));
  EXPECT_EQ(Labels({"", Scale::kLog10, ""}, 3, 70), (Texts{"5", "10", "20", "50"}));
  EXPECT_EQ(Labels({"", Scale::kLog2, ""}, 500, 4100), (Texts{"512", "1,024", "2,048", "4,096"}));
}

TEST(PlotTest, BytesHaveBinaryUnitsAsInTables) {
  constexpr double kMiB = 0x1p20;
  EXPECT_EQ(Labels({"", Scale::kLog2, "B"}, 200 * kMiB, 1100 * kMiB),
            (Texts{"256 MiB", "512 MiB", "1 GiB"}));
  // Too narrow for powers: round numbers of the unit.
  EXPECT_EQ(Labels({"", Scale::kLog2, "B"}, 200 * kMiB, 250 * kMiB),
            (Texts{"200 MiB", "210 MiB", "220 MiB", "230 MiB", "240 MiB", "250 MiB"}));
  EXPECT_EQ(ChooseTicks({"", Scale::kLinear, "B"}, 200 * kMiB, 250 * kMiB)[1].value, 210 * kMiB);
}

TEST(PlotTest, EveryAxisHasAtLeastTwoLabelsAndNotTooMany) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog10, Scale::kLog2}) {
    for (const double low : {1e-12, 0.003, 1.0, 7.0, 1e9}) {
      for (const double ratio : {1.001, 1.3, 2.0, 9.0, 1e3, 1e12}) {
        const size_t labels = Labels({"", scale, ""}, low, low * ratio).size();
        EXPECT_GE(labels, 2u) << low << " x " << ratio;
        EXPECT_LE(labels, 9u) << low << " x " << ratio;
      }
    }
  }
}

TEST(PlotTest, TextIsEscaped) {
  Figure figure = PlotOf({{1, 1}, {2, 2}});
  figure.panels[0].series[0].name = "<script>";
  EXPECT_FALSE(Contains(RenderSvg(figure), "<script>"));
  EXPECT_TRUE(Contains(RenderSvg(figure), "&lt;script&gt;"));
  EXPECT_NO_THROW(cosformer::testing::ElementsOf(RenderSvg(figure)));
}

TEST(PlotTest, OnePointAndEqualValuesAreDrawnWithinThePlot) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog10, Scale::kLog2}) {
    for (const auto& points : {std::vector<Point>{{512, 3}}, {{1, 2}, {1, 2}}, {{1, 5}, {2, 5}}}) {
      const std::string svg = RenderSvg(PlotOf(points, scale));
      EXPECT_FALSE(Contains(svg, "nan"));
      EXPECT_FALSE(Contains(svg, "inf"));
      EXPECT_EQ(Count(svg, "<circle"), static_cast<int>(points.size()) + 1);  // and the legend's
    }
  }
  EXPECT_FALSE(Contains(RenderSvg(PlotOf({{0, 0}})), "nan"));
  EXPECT_FALSE(Contains(RenderSvg(PlotOf({{-1e300, -1e300}, {1e300, 1e300}})), "inf"));
}

TEST(PlotTest, ValuesThatAreNotFiniteLeaveAGap) {
  const std::string svg =
      RenderSvg(PlotOf({{1, 1}, {2, 2}, {3, kNanPoint}, {4, INFINITY}, {5, 1}, {6, 2}}));
  EXPECT_TRUE(std::regex_search(svg, std::regex("<path d=\"M[^\"M]*L[^\"M]*M[^\"M]*L[^\"M]*\"")));
  EXPECT_FALSE(Contains(svg, "nan"));
}

TEST(PlotTest, NothingToDrawIsAnError) {
  EXPECT_TRUE(Contains(PlotMessageOf({"empty figure", "", {}}), "empty figure"));
  EXPECT_TRUE(Contains(PlotMessageOf(PlotOf({})), "\"panel\""));
  EXPECT_TRUE(Contains(PlotMessageOf(PlotOf({{kNanPoint, 1}})), "\"panel\""));
}

TEST(PlotTest, AValueThatHasNoLogarithmIsNamed) {
  EXPECT_TRUE(Contains(PlotMessageOf(PlotOf({{1, 1}, {2, 0}}, Scale::kLog10)), "\"line\""));
  EXPECT_TRUE(Contains(PlotMessageOf(PlotOf({{1, 1}, {-2, 1}}, Scale::kLog2)), "-2"));
}

TEST(PlotTest, SeriesDifferInMarkerAndDashUnlessToldOtherwise) {
  Figure figure = PlotOf({{1, 1}, {2, 2}});
  figure.panels[0].series.push_back({"second", {{1, 2}, {2, 3}}, -1, -1});
  std::string svg = RenderSvg(figure);
  EXPECT_TRUE(Contains(svg, "<circle"));
  EXPECT_TRUE(Contains(svg, "<polygon"));
  EXPECT_EQ(Count(svg, "stroke-dasharray"), 2);  // the line and its legend
  figure.panels[0].series[1].hue = figure.panels[0].series[1].dash = 0;
  svg = RenderSvg(figure);
  EXPECT_FALSE(Contains(svg, "<polygon"));
  EXPECT_EQ(Count(svg, "stroke-dasharray"), 0);
}

TEST(PlotTest, TheEighthSeriesHasTheFirstColourWithAnotherMarker) {
  Figure figure = PlotOf({{1, 1}, {2, 2}});
  for (int i = 1; i < 8; ++i) {
    figure.panels[0].series.push_back({"another", {{1, 1.0 + i}, {2, 2.0 + i}}, -1, -1});
  }
  const std::string svg = RenderSvg(figure);
  const auto count = [&](const char* marker) {
    const std::regex shape(std::string(marker) + "[^>]*fill=\"#0072b2\"");
    return std::distance(std::sregex_iterator(svg.begin(), svg.end(), shape), {});
  };
  EXPECT_EQ(count("<circle "), 3);  // two points and the legend
  EXPECT_EQ(count("<polygon "), 3);
}

TEST(PlotTest, WhatIsDrawnTogetherHasDifferentHuesAndKeepsItsOwnIfItCan) {
  const auto hues = [](std::vector<int> usual) { return DistinctHues(usual); };
  EXPECT_EQ(hues({0, 1, 2}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(hues({0, 1, 7}), (std::vector<int>{0, 1, 2}));  // 7 has the colour of 0
  EXPECT_EQ(hues({0, 7, 1}), (std::vector<int>{0, 2, 1}));  // which is no reason to take that of 1
  EXPECT_EQ(hues({14, 3}), (std::vector<int>{0, 3}));
  EXPECT_EQ(hues({}), (std::vector<int>{}));
  std::vector<int> all(15);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(hues(all), all);
  EXPECT_EQ(hues({4, 4, 4, 4, 4, 4, 4, 4, 4}), (std::vector<int>{4, 0, 1, 2, 3, 5, 6, 11, 7}));
}

TEST(PlotTest, ASeriesCanStandBackBehindTheOthers) {
  Figure figure = PlotOf({{1, 1}, {2, 3}});
  Series& line = figure.panels[0].series[0];
  EXPECT_TRUE(Contains(RenderSvg(figure), "<circle"));
  EXPECT_TRUE(Contains(RenderSvg(figure), ">line</text>"));
  EXPECT_FALSE(Contains(RenderSvg(figure), "stroke-opacity"));
  line.points[1].marker = false;
  EXPECT_EQ(Count(RenderSvg(figure), "<circle"), 2);  // one is the legend's
  line.markers = false;
  line.opacity = 0.25;
  line.width = 1;
  line.name = "";
  const std::string svg = RenderSvg(figure);
  EXPECT_FALSE(Contains(svg, "<circle"));
  EXPECT_TRUE(Contains(svg, "stroke-width=\"1\""));
  EXPECT_TRUE(Contains(svg, "stroke-opacity=\"0.25\""));
}

TEST(PlotTest, ASeriesWithoutANameTakesNoPlaceInTheLegend) {
  Figure figure = PlotOf({{1, 1}, {2, 3}});
  const std::string before = RenderSvg(figure);
  Series nameless = figure.panels[0].series[0];
  nameless.name = "";
  figure.panels[0].series.insert(figure.panels[0].series.begin(), 9, nameless);
  const auto height = [](const std::string& svg) { return svg.substr(0, svg.find("role")); };
  EXPECT_EQ(height(RenderSvg(figure)), height(before));
  EXPECT_EQ(Count(RenderSvg(figure), ">line</text>"), 1);
}

TEST(PlotTest, PanelsStandInRowsOfSoManyColumns) {
  Figure figure = PlotOf({{1, 1}, {2, 2}});
  figure.panels.resize(3, figure.panels[0]);
  const auto size = [&](int columns) {
    figure.columns = columns;
    std::smatch match;
    const std::string svg = RenderSvg(figure);
    EXPECT_TRUE(
        std::regex_search(svg, match, std::regex("width=\"([0-9]+)\" height=\"([0-9]+)\"")));
    return std::pair(std::stoi(match[1]), std::stoi(match[2]));
  };
  const auto [row_width, row_height] = size(0);
  EXPECT_EQ(size(3), std::pair(row_width, row_height));
  EXPECT_EQ(size(7), std::pair(row_width, row_height));  // there are no more than three
  const auto [width, height] = size(2);
  EXPECT_EQ(3 * width, 2 * row_width);
  EXPECT_GT(height, row_height + 280);  // a second row, with a plot of 280 pixels
  EXPECT_EQ(3 * size(1).first, row_width);
  EXPECT_EQ(size(1).second - height, height - row_height);
  // None lies over another: titles of panels are where the panels are.
  figure.columns = 2;
  const std::string svg = RenderSvg(figure);
  const std::regex title("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" font-size=\"13.5\"");
  std::set<std::pair<std::string, std::string>> places;
  for (std::sregex_iterator it(svg.begin(), svg.end(), title), end; it != end; ++it) {
    places.insert({(*it)[1], (*it)[2]});
  }
  EXPECT_EQ(places.size(), 3u);
}

TEST(PlotTest, AnIntervalIsABarWithinThePlot) {
  Figure figure = PlotOf({{1, 5}, {2, 6}});
  EXPECT_EQ(Count(RenderSvg(figure), "class=\"bar\""), 0);
  const auto top_label = [&] {
    std::vector<double> labels;
    const std::string svg = RenderSvg(figure);
    const std::regex label("text-anchor=\"end\">([0-9.]+)<");
    for (std::sregex_iterator it(svg.begin(), svg.end(), label), end; it != end; ++it) {
      labels.push_back(std::stod((*it)[1]));
    }
    return *std::max_element(labels.begin(), labels.end());
  };
  EXPECT_LT(top_label(), 7);
  figure.panels[0].series[0].points[1].low = 4;
  EXPECT_EQ(Count(RenderSvg(figure), "class=\"bar\""), 0);  // half an interval is none
  figure.panels[0].series[0].points[1].high = 12;
  EXPECT_EQ(Count(RenderSvg(figure), "class=\"bar\""), 1);
  EXPECT_GT(top_label(), 10);
  figure.panels[0].y.scale = Scale::kLog10;
  figure.panels[0].series[0].points[1].low = 0;
  EXPECT_TRUE(Contains(PlotMessageOf(figure), "\"line\""));
}

TEST(PlotTest, ALongCurveHasFewMarkers) {
  std::vector<Point> points;
  for (int i = 0; i < 10000; ++i) points.push_back({i + 0.0, std::sin(0.01 * i)});
  EXPECT_LE(Count(RenderSvg(PlotOf(points)), "<circle"), 26);
}

}  // namespace
}  // namespace cosformer::report
