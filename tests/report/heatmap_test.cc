// Pictures of heatmaps, read back: the cells, and what stands around them.
#include "report/heatmap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "contains.h"
#include "decoded_png.h"
#include "report/colour_map.h"
#include "svg_reader.h"

namespace cosformer::report {
namespace {

using cosformer::testing::Contains;
using cosformer::testing::DecodedPng;
using cosformer::testing::DecodePng;
using cosformer::testing::ElementsOf;
using cosformer::testing::TextsOf;
using cosformer::testing::XmlElement;
using Texts = std::vector<std::string>;

constexpr float kNanValue = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kMargin = 16;
constexpr int64_t kGap = 32;

Heatmap MapOf(int64_t rows, int64_t columns, std::vector<float> values = {}) {
  Heatmap map;
  map.title = "map";
  map.rows = rows;
  map.columns = columns;
  map.values = std::move(values);
  // Not symmetric, every level somewhere, the largest first, some cells masked.
  for (int64_t i = 0; map.values.size() < static_cast<size_t>(rows * columns); ++i) {
    const auto level = static_cast<float>((253 + 101 * i) % 254);
    map.values.push_back(i % 13 == 7 ? kNanValue : level);
  }
  return map;
}

HeatmapFigure FigureOf(std::vector<Heatmap> maps) {
  HeatmapFigure figure;
  figure.title = "figure";
  figure.maps = std::move(maps);
  return figure;
}

// Of a value of MapOf, or of any map whose largest is 253.
Rgb ColourOf(float value) {
  return HeatmapPalette()[std::isnan(value) ? kMaskedLevel : static_cast<size_t>(value)];
}

std::string Hex(const Rgb& colour) {
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", colour.red, colour.green, colour.blue);
  return text;
}

// The colours of the cells of the one map in an SVG file; "" where there is none.
Texts CellsOf(const std::string& svg, int64_t rows, int64_t columns) {
  Texts cells(static_cast<size_t>(rows * columns));
  for (const XmlElement& path : ElementsOf(svg, "path")) {
    std::istringstream runs(path.attributes.at("d"));
    for (std::string run; std::getline(runs, run, 'z');) {
      long long first = 0, row = 0, length = 0, back = 0;
      EXPECT_EQ(std::sscanf(run.c_str(), "M%lld %lldh%lldv1h-%lld", &first, &row, &length, &back),
                4);
      EXPECT_EQ(length, back);
      for (int64_t j = first; j < first + length; ++j) {
        std::string& cell = cells.at(static_cast<size_t>(row * columns + j));
        EXPECT_EQ(cell, "") << "twice";
        cell = path.attributes.at("fill");
      }
    }
  }
  return cells;
}

std::string DecodeBase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  EXPECT_EQ(text.size() % 4, 0u);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    EXPECT_NE(digits.find(c), std::string::npos);
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return bytes;
}

DecodedPng EmbeddedPng(const XmlElement& image) {
  const std::string prefix = "data:image/png;base64,";
  const std::string& address = image.attributes.at("href");
  EXPECT_EQ(address.substr(0, prefix.size()), prefix);
  return DecodePng(DecodeBase64(address.substr(prefix.size())));
}

// The outlines of maps, of colour bars and of the sign for masked cells.
std::vector<XmlElement> FramesOf(const std::string& svg, const std::string& fill) {
  std::vector<XmlElement> frames;
  for (const XmlElement& rect : ElementsOf(svg, "rect")) {
    if (rect.attributes.at("fill") == fill) frames.push_back(rect);
  }
  return frames;
}

TEST(SvgReaderTest, WhatIsNoXmlIsRefused) {
  EXPECT_EQ(ElementsOf("<a b=\"&lt;\"><c/>x&amp;y</a>\n").back().text, "x&amp;y");
  for (const char* bad :
       {"<a></b>\n", "<a><b></a></b>\n", "<a>\n", "<a b=1/>\n", "<a b=\"1\" b=\"2\"/>\n",
        "<a>&</a>\n", "<a b=\"&x;\"/>\n", "<a b=\"<\"/>\n", "<a/><b/>\n", "<a/>x\n", "x<a/>\n",
        "<a>\x01</a>\n", "<a>\xEF\xBF\xBE</a>\n", "<a", "", "<!-- --><a/>\n"}) {
    EXPECT_THROW(ElementsOf(bad), std::runtime_error) << bad;
  }
}

TEST(HeatmapPngTest, EveryPixelOfACellHasItsColour) {
  const Heatmap map = MapOf(128, 96);
  const DecodedPng png = DecodePng(HeatmapPng(FigureOf({map})));
  ASSERT_EQ(png.width, 96 * 8 + 2 * kMargin);
  ASSERT_EQ(png.height, 128 * 8 + 2 * kMargin);
  for (int64_t y = 0; y < png.height; ++y) {
    for (int64_t x = 0; x < png.width; ++x) {
      const int64_t i = (y - kMargin) / 8, j = (x - kMargin) / 8;
      const bool page = x < kMargin || y < kMargin || i >= 128 || j >= 96;
      const Rgb expected =
          page ? Rgb{255, 255, 255} : ColourOf(map.values[static_cast<size_t>(i * 96 + j)]);
      ASSERT_EQ(png.At(x, y), expected) << x << ", " << y;
    }
  }
}

TEST(HeatmapPngTest, CellsAreWholePixelsAndThePictureIsOfAUsefulSize) {
  for (const int64_t length : {1, 2, 3, 8, 64, 100, 341, 511, 512, 513, 1000, 1024, 1025, 2048}) {
    const DecodedPng png = DecodePng(HeatmapPng(FigureOf({MapOf(8, length), MapOf(length, 8)})));
    const int64_t cell = std::max<int64_t>(1, 1024 / std::max<int64_t>(8, length));
    const int64_t wide = length * std::max(cell, (64 + length - 1) / length);
    EXPECT_EQ(png.width, wide + 8 * std::max<int64_t>(cell, 8) + kGap + 2 * kMargin) << length;
    if (length < 8) continue;
    EXPECT_GE(wide, 512);
    EXPECT_LE(wide, std::max<int64_t>(1024, length));
  }
}

TEST(HeatmapPngTest, MapsStandBesideEachOther) {
  HeatmapFigure figure = FigureOf({MapOf(1, 1, {100}), MapOf(1, 1, {253})});
  DecodedPng png = DecodePng(HeatmapPng(figure));
  EXPECT_EQ(png.width, 2 * 1024 + kGap + 2 * kMargin);
  const int64_t second = kMargin + 1024 + kGap;
  EXPECT_EQ(png.At(kMargin, kMargin), ColourOf(253));
  EXPECT_EQ(png.At(second - 1, kMargin), (Rgb{255, 255, 255}));
  EXPECT_EQ(png.At(second, kMargin), ColourOf(253));
  figure.common_range = true;
  png = DecodePng(HeatmapPng(figure));
  EXPECT_EQ(png.At(kMargin, kMargin), ColourOf(100));
  EXPECT_EQ(png.At(second, kMargin), ColourOf(253));
}

TEST(HeatmapPngTest, MapsBeyond2048AreAveragedByBlocks) {
  Heatmap map = MapOf(3, 2049, std::vector<float>(3 * 2049, 0.0f));
  map.values[0] = 100;  // with three zeros
  map.values[2048] = 253;
  map.values[2049 + 2048] = 153;  // a block of one column
  map.values[2 * 2049] = 60;      // a block of one row
  for (const int64_t row : {0, 1}) {
    for (const int64_t column : {2, 3}) {
      map.values[static_cast<size_t>(row * 2049 + column)] = kNanValue;
    }
  }
  const DecodedPng png = DecodePng(HeatmapPng(FigureOf({map})));
  ASSERT_EQ(png.width, 1025 + 2 * kMargin);
  ASSERT_EQ(png.height, 2 * 32 + 2 * kMargin);
  const auto at = [&](int64_t row, int64_t column) {
    return png.At(kMargin + column, kMargin + 32 * row);
  };
  const auto colour = [](double mean) { return HeatmapPalette()[LevelAt(mean / 203)]; };
  EXPECT_EQ(at(0, 0), colour(25));
  EXPECT_EQ(at(0, 1), ColourOf(kNanValue));
  EXPECT_EQ(at(0, 2), colour(0));
  EXPECT_EQ(at(0, 1024), colour(203));
  EXPECT_EQ(at(1, 0), colour(30));
  EXPECT_EQ(at(1, 1), colour(0));
}

TEST(HeatmapPngTest, MoreMapsThanFitAreRefused) {
  // 1,057 pixels each: 1,000,000 of them are passed.
  const HeatmapFigure figure = FigureOf(std::vector<Heatmap>(970, MapOf(1, 1)));
  EXPECT_TRUE(Contains(cosformer::testing::MessageOf([&] { HeatmapPng(figure); }),
                       "draw less in one picture"));
}

TEST(HeatmapSvgTest, EveryCellHasItsColourOnce) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {8, 8}, {5, 70}, {200, 200}}) {
    const Heatmap map = MapOf(rows, columns);
    const std::string svg = HeatmapSvg(FigureOf({map}));
    EXPECT_TRUE(ElementsOf(svg, "image").empty());
    const Texts cells = CellsOf(svg, rows, columns);
    for (size_t i = 0; i < cells.size(); ++i) {
      ASSERT_EQ(cells[i], Hex(ColourOf(map.values[i]))) << i << " of " << rows << " x " << columns;
    }
  }
}

TEST(HeatmapSvgTest, MapsOfMoreThan200By200AreEmbedded) {
  const Heatmap map = MapOf(201, 200);
  const std::string svg = HeatmapSvg(FigureOf({map}));
  EXPECT_TRUE(ElementsOf(svg, "path").empty());
  const std::vector<XmlElement> images = ElementsOf(svg, "image");
  ASSERT_EQ(images.size(), 1u);
  const DecodedPng png = EmbeddedPng(images[0]);
  ASSERT_EQ(png.width, 200);
  ASSERT_EQ(png.height, 201);
  for (size_t i = 0; i < map.values.size(); ++i) {
    ASSERT_EQ(png.pixels[i], ColourOf(map.values[i])) << i;
  }
}

TEST(HeatmapSvgTest, FilesOfLongMapsStaySmall) {
  // Noise takes all 8 bits of a pixel, and base64 a third more.
  EXPECT_LT(HeatmapSvg(FigureOf({MapOf(200, 200)})).size(), 200u * 200 * 18);
  EXPECT_LT(HeatmapSvg(FigureOf({MapOf(512, 512)})).size(), 512u * 512 * 3 / 2);
}

TEST(HeatmapSvgTest, EmbeddedCellsKeepTheirEdgesWhereTheyAreEnlarged) {
  const auto style = [](int64_t length) {
    const std::string svg = HeatmapSvg(FigureOf({MapOf(length, length)}));
    return ElementsOf(svg, "image").at(0).attributes["style"];
  };
  EXPECT_EQ(style(300), "image-rendering:pixelated");
  EXPECT_EQ(style(512), "image-rendering:pixelated");
  EXPECT_EQ(style(513), "");
}

TEST(HeatmapSvgTest, MapsBeyond1024AreAveragedByBlocks) {
  Heatmap map = MapOf(100, 1025, std::vector<float>(100 * 1025, 100.0f));
  map.values[0] = 500;
  const std::string svg = HeatmapSvg(FigureOf({map}));
  const Texts cells = CellsOf(svg, 50, 513);
  EXPECT_EQ(cells[0], Hex(HeatmapPalette()[kLevels - 1]));
  EXPECT_EQ(cells[1], Hex(HeatmapPalette()[LevelAt(100.0 / 200)]));
  EXPECT_EQ(std::count(cells.begin(), cells.end(), ""), 0);
  EXPECT_TRUE(Contains(svg, ">100 × 1,025 in means of 2 × 2, from 100 to 500<"));
}

TEST(HeatmapSvgTest, TokensAreEscapedAndVisible) {
  HeatmapFigure figure = FigureOf({MapOf(2, 5)});
  figure.maps[0].row_labels = {"<s>", "&amp;"};
  figure.maps[0].column_labels = {"▁the", "\n", " ", "\x01\xFF", "'internationalisation'"};
  const Texts texts = TextsOf(HeatmapSvg(figure));
  for (const char* label : {"&lt;s&gt;", "&amp;amp;", "▁the", "↵", "␣", "␁\xEF\xBF\xBD",
                            "&apos;internationa…", "query", "key", "weight", "map", "figure"}) {
    EXPECT_EQ(std::count(texts.begin(), texts.end(), label), 1) << label;
  }
}

TEST(HeatmapSvgTest, HostileTextLeavesTheFileWellFormed) {
  const std::string hostile = "]]><!-- <script>&\"'\xEF\xBF\xBF\x02\xC0 -->";
  HeatmapFigure figure = FigureOf({MapOf(1, 2), MapOf(300, 300)});
  figure.title = figure.subtitle = figure.value_title = hostile;
  for (Heatmap& map : figure.maps) map.title = map.row_title = map.column_title = hostile;
  figure.maps[0].row_labels = {hostile};
  figure.maps[0].column_labels = {hostile, "]]>"};
  const std::string svg = HeatmapSvg(figure);
  EXPECT_NO_THROW(ElementsOf(svg));
  EXPECT_FALSE(Contains(svg, "<script>"));
  EXPECT_FALSE(Contains(svg, "<!--"));
}

TEST(HeatmapSvgTest, PositionsStandWhereTokensDoNot) {
  HeatmapFigure figure = FigureOf({MapOf(65, 64)});
  Texts texts = TextsOf(HeatmapSvg(figure));
  for (const char* position : {"0", "20", "40", "60"}) {
    // Of rows and columns; "0" is also that of the colour bar.
    EXPECT_GE(std::count(texts.begin(), texts.end(), position), 2) << position;
  }
  figure.maps[0].row_labels = Texts(65, "row");
  figure.maps[0].column_labels = Texts(64, "column");
  texts = TextsOf(HeatmapSvg(figure));
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "row"), 0);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "column"), 64);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "60"), 1);
}

TEST(HeatmapSvgTest, AFewPositionsAreWholeNumbers) {
  HeatmapFigure figure = FigureOf({MapOf(3, 2, {2, 2, 2, 2, 2, 2})});
  const Texts texts = TextsOf(HeatmapSvg(figure));
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "0"), 3);  // and the bar's
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "1"), 3);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "2"), 2);  // the last row, the end of the bar
}

TEST(HeatmapSvgTest, OnePositionHasANumberToo) {
  const Texts texts = TextsOf(HeatmapSvg(FigureOf({MapOf(1, 1)})));
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "0"), 3);  // and the bar's
}

TEST(HeatmapSvgTest, PositionsOfANarrowMapDoNotTouch) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1000, 121}, {121, 1000}, {900, 30}}) {
    const std::string svg = HeatmapSvg(FigureOf({MapOf(rows, columns)}));
    const XmlElement frame = FramesOf(svg, "none").at(0);
    double right = -1, below = -1;
    for (const XmlElement& text : ElementsOf(svg, "text")) {
      if (text.attributes.count("text-anchor") == 0 || text.attributes.count("x") == 0) continue;
      if (text.attributes.at("text-anchor") == "end") {  // of a row
        EXPECT_GT(text.Number("y") - text.Number("font-size"), below);
        below = text.Number("y");
      } else if (text.text != "key") {
        const double half = TextWidth(text.text, text.Number("font-size")) / 2;
        EXPECT_GT(text.Number("x") - half, right);
        right = text.Number("x") + half;
      }
    }
    EXPECT_GT(right, frame.Number("x"));
    EXPECT_GT(below, frame.Number("y"));
  }
}

TEST(HeatmapSvgTest, FactsOfANarrowMapEndBeforeTheBar) {
  const std::string svg = HeatmapSvg(FigureOf({MapOf(100, 1)}));
  double bar = 0;
  for (const XmlElement& text : ElementsOf(svg, "text")) {
    if (text.text == "weight") bar = text.Number("x");
  }
  for (const XmlElement& text : ElementsOf(svg, "text")) {
    if (!text.text.starts_with("100 × 1, from")) continue;
    EXPECT_LT(text.Number("x") + TextWidth(text.text, text.Number("font-size")), bar);
    bar = 0;
  }
  EXPECT_EQ(bar, 0) << "there are no facts";
}

TEST(HeatmapSvgTest, ATickPointsAtTheMiddleOfItsCell) {
  const std::string svg = HeatmapSvg(FigureOf({MapOf(10, 10)}));
  const XmlElement frame = FramesOf(svg, "none").at(0);
  const double cell = frame.Number("width") / 10;
  bool found = false;
  for (const XmlElement& text : ElementsOf(svg, "text")) {
    if (text.text != "4" || text.attributes.at("text-anchor") != "middle") continue;
    found = true;
    EXPECT_NEAR(text.Number("x"), frame.Number("x") + 4.5 * cell, 0.01);  // two digits are written
  }
  EXPECT_TRUE(found);
}

TEST(HeatmapSvgTest, MapsOfOneShapeHaveOneSizeAndOneLine) {
  HeatmapFigure figure = FigureOf({MapOf(60, 60), MapOf(60, 60), MapOf(60, 40)});
  figure.maps[1].row_labels = Texts(60, "▁somewhat long");  // which make it larger
  const std::vector<XmlElement> frames = FramesOf(HeatmapSvg(figure), "none");
  ASSERT_EQ(frames.size(), 3u);
  for (const char* side : {"width", "height", "y"}) {
    EXPECT_EQ(frames[0].Number(side), frames[1].Number(side)) << side;
  }
  EXPECT_EQ(frames[0].Number("width"), frames[0].Number("height"));
  EXPECT_EQ(frames[2].Number("y"), frames[0].Number("y"));
  EXPECT_NEAR(frames[2].Number("width"), frames[2].Number("height") * 2 / 3, 0.01);
}

TEST(HeatmapSvgTest, ThereIsOneColourBarAMapOrOneForAll) {
  HeatmapFigure figure = FigureOf({MapOf(4, 4, std::vector<float>(16, 0.25f)), MapOf(4, 4)});
  const std::string masked = Hex(ColourOf(kNanValue));
  std::string svg = HeatmapSvg(figure);
  EXPECT_EQ(FramesOf(svg, "url(#scale)").size(), 2u);
  EXPECT_EQ(FramesOf(svg, masked).size(), 1u);  // the first has no masked cell
  figure.common_range = true;
  svg = HeatmapSvg(figure);
  EXPECT_EQ(FramesOf(svg, "url(#scale)").size(), 1u);
  EXPECT_EQ(FramesOf(svg, masked).size(), 1u);
  std::swap(figure.maps[0], figure.maps[1]);
  EXPECT_EQ(FramesOf(HeatmapSvg(figure), masked).size(), 1u);
}

TEST(HeatmapSvgTest, TheBarSaysWhatItsEndsMean) {
  HeatmapFigure figure = FigureOf({MapOf(1, 4, {0, 0.001f, 0.5f, 1})});
  const auto has = [&figure](const std::string& label) {
    const Texts texts = TextsOf(HeatmapSvg(figure));
    return std::count(texts.begin(), texts.end(), label) == 1;
  };
  EXPECT_TRUE(has("0.2") && has("0.8"));
  EXPECT_TRUE(has("1 × 4, from 0 to 1"));
  figure.saturated = 0.25;
  EXPECT_TRUE(has("≥ 0.5") && has("0.4"));
  figure.saturated = 0;
  figure.logarithmic = true;
  EXPECT_TRUE(has("≤ 0.001") && has("0.01") && has("0.1"));
  figure.maps[0].values[0] = 0.002f;
  EXPECT_FALSE(has("≤ 0.001"));
}

TEST(HeatmapSvgTest, TheLargestAndTheSmallestFloatsHaveABar) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  for (const auto& values : {std::vector<float>{0, kLargest},
                             {-kLargest, kLargest},
                             {0, kSmallest},
                             {kSmallest, kLargest},
                             {1, std::nextafter(1.0f, 2.0f)}}) {
    HeatmapFigure figure = FigureOf({MapOf(1, 2, values)});
    for (const bool logarithmic : {false, true}) {
      if (logarithmic && values[0] < 0) continue;
      figure.logarithmic = logarithmic;
      const std::string svg = HeatmapSvg(figure);
      EXPECT_FALSE(Contains(svg, "nan"));
      EXPECT_FALSE(Contains(svg, "inf"));
      EXPECT_LT(ElementsOf(svg, "svg").at(0).Number("width"), 1000);
      EXPECT_GE(ElementsOf(svg, "line").size(), 2u + 1 + 2);  // positions, and two of the bar
    }
  }
}

TEST(HeatmapSvgTest, EverythingLiesOnThePage) {
  const std::string name = "a title that is much longer than any map below it can be wide";
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 300}, {300, 1}, {2000, 120}, {64, 64}, {64, 900}, {512, 512}}) {
    for (const bool labelled : {false, true}) {
      HeatmapFigure figure = FigureOf({MapOf(rows, columns), MapOf(rows, columns)});
      figure.subtitle = figure.maps[1].title = name;
      figure.title = name + ", " + name + ", " + name;
      for (Heatmap& map : figure.maps) {
        if (!labelled) continue;
        map.row_labels = Texts(static_cast<size_t>(rows), "▁a row of the map");
        map.column_labels = Texts(static_cast<size_t>(columns), "▁a column of the map");
      }
      const std::string svg = HeatmapSvg(figure);
      const XmlElement page = ElementsOf(svg, "svg").at(0);
      const double width = page.Number("width"), height = page.Number("height");
      EXPECT_FALSE(Contains(svg, "nan"));
      EXPECT_FALSE(Contains(svg, "inf"));
      for (const XmlElement& element : ElementsOf(svg)) {
        if (element.attributes.count("x") == 0) continue;
        const bool box = element.attributes.count("width") > 0;
        const bool start = element.name == "text" && element.attributes.count("text-anchor") == 0;
        // Some half of the size of the font a character, which is how all the room is reckoned.
        const double size =
            element.attributes.count("font-size") ? element.Number("font-size") : 12;
        const double extent = box     ? element.Number("width")
                              : start ? TextWidth(element.text, size)
                                      : 0;
        EXPECT_GE(element.Number("x"), 0);
        EXPECT_LE(element.Number("x") + extent, width) << element.text << rows << " x " << columns;
        EXPECT_LE(element.Number("y") + (box ? element.Number("height") : 0), height);
      }
    }
  }
}

TEST(HeatmapTest, TheSameFigureGivesTheSameBytes) {
  for (const int64_t length : {5, 300}) {
    HeatmapFigure figure = FigureOf({MapOf(length, length), MapOf(7, length)});
    const HeatmapFigure copy = figure;
    EXPECT_EQ(HeatmapSvg(figure), HeatmapSvg(copy));
    EXPECT_EQ(HeatmapPng(figure), HeatmapPng(copy));
    figure.maps[0].values[3] = 17;
    EXPECT_NE(HeatmapSvg(figure), HeatmapSvg(copy));
    EXPECT_NE(HeatmapPng(figure), HeatmapPng(copy));
  }
}

TEST(HeatmapTest, BadInputIsAnErrorOfBothWriters) {
  const HeatmapFigure figure = FigureOf({MapOf(2, 2), MapOf(2, 2, {1, 2, 3, INFINITY})});
  for (const auto writer : {HeatmapSvg, HeatmapPng}) {
    EXPECT_TRUE(Contains(cosformer::testing::MessageOf([&] { writer(figure); }),
                         "holds inf at row 1, column 1"));
  }
}

}  // namespace
}  // namespace cosformer::report
