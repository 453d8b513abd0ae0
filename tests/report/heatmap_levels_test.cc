// Which colour a value gets: checks, means and ranges.
#include "report/heatmap_levels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "contains.h"
#include "report/colour_map.h"

namespace cosformer::report {
namespace {

using cosformer::testing::Contains;
using Levels = std::vector<uint8_t>;

constexpr float kNanCell = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfiniteCell = std::numeric_limits<float>::infinity();
constexpr int kTop = kLevels - 1;

HeatmapFigure FigureOf(int64_t rows, int64_t columns, std::vector<float> values) {
  Heatmap map;
  map.title = "a map";
  map.rows = rows;
  map.columns = columns;
  map.values = std::move(values);
  HeatmapFigure figure;
  figure.title = "a figure";
  figure.maps = {map};
  return figure;
}

LevelMap LevelsOfOne(const HeatmapFigure& figure, int64_t most = 100) {
  return LevelsOf(figure, most).at(0);
}

std::string LevelsMessageOf(const HeatmapFigure& figure) {
  return cosformer::testing::MessageOf([&figure] { LevelsOf(figure, 100); });
}

TEST(HeatmapLevelsTest, ALinearScaleBeginsAtZero) {
  // 253 steps of 0.01: each value has a level of its own.
  const LevelMap map = LevelsOfOne(FigureOf(1, 5, {0.01f, 1, 2.52f, 2.53f, kNanCell}));
  EXPECT_EQ(map.levels, (Levels{1, 100, 252, 253, kMaskedLevel}));
  EXPECT_EQ(map.range.low, 0);
  EXPECT_FLOAT_EQ(map.range.high, 2.53f);
  EXPECT_FLOAT_EQ(map.smallest, 0.01f);
  EXPECT_FLOAT_EQ(map.largest, 2.53f);
  EXPECT_TRUE(map.masked);
  EXPECT_FALSE(LevelsOfOne(FigureOf(1, 1, {1})).masked);
}

TEST(HeatmapLevelsTest, ALinearScaleReachesToNegativeValues) {
  EXPECT_EQ(LevelsOfOne(FigureOf(1, 3, {-100, 0, 153})).levels, (Levels{0, 100, 253}));
  EXPECT_EQ(LevelsOfOne(FigureOf(1, 2, {-253, -53})).levels, (Levels{0, 200}));
}

TEST(HeatmapLevelsTest, EqualValuesHaveARangeToo) {
  EXPECT_EQ(LevelsOfOne(FigureOf(1, 2, {0, 0})).levels, (Levels{0, 0}));
  EXPECT_EQ(LevelsOfOne(FigureOf(1, 2, {3, 3})).levels, (Levels{kTop, kTop}));
  EXPECT_EQ(LevelsOfOne(FigureOf(1, 2, {-3, -3})).levels, (Levels{0, 0}));
  HeatmapFigure figure = FigureOf(1, 2, {3, 3});
  figure.logarithmic = true;
  EXPECT_EQ(LevelsOfOne(figure).levels, (Levels{127, 127}));  // in the middle
}

TEST(HeatmapLevelsTest, ALogarithmicScaleGivesEqualRatiosEqualSteps) {
  HeatmapFigure figure = FigureOf(1, 4, {1, 0.1f, 0.01f, kNanCell});
  figure.logarithmic = true;
  const LevelMap map = LevelsOfOne(figure);
  EXPECT_EQ(map.levels, (Levels{kTop, 127, 0, kMaskedLevel}));
  EXPECT_FALSE(map.range.below);
}

TEST(HeatmapLevelsTest, ALogarithmicScaleEndsAfterSixDecades) {
  HeatmapFigure figure = FigureOf(1, 5, {1, 1e-3f, 1e-6f, 1e-7f, 0});
  figure.logarithmic = true;
  const LevelMap map = LevelsOfOne(figure);
  EXPECT_EQ(map.levels, (Levels{kTop, 127, 0, 0, 0}));
  EXPECT_DOUBLE_EQ(map.range.low, 1e-6);
  EXPECT_TRUE(map.range.below);
}

TEST(HeatmapLevelsTest, ZerosOnALogarithmicScaleLieBelowAWholePower) {
  HeatmapFigure figure = FigureOf(1, 3, {0, 0.03f, 0.5f});
  figure.logarithmic = true;
  EXPECT_DOUBLE_EQ(LevelsOfOne(figure).range.low, 0.01);
  EXPECT_TRUE(LevelsOfOne(figure).range.below);
  // Also where all that is positive lies within one decade.
  figure = FigureOf(1, 3, {0, 0.4f, 0.5f});
  figure.logarithmic = true;
  EXPECT_DOUBLE_EQ(LevelsOfOne(figure).range.low, 0.01);
}

TEST(HeatmapLevelsTest, SaturatedCellsShareTheHighestColour) {
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 1.0f);
  values[99] = 1000;
  HeatmapFigure figure = FigureOf(10, 10, values);
  figure.saturated = 0.02;
  LevelMap map = LevelsOfOne(figure);
  EXPECT_EQ(map.range.high, 98);
  EXPECT_TRUE(map.range.above);
  EXPECT_EQ(map.levels[97], kTop);
  EXPECT_EQ(map.levels[99], kTop);
  EXPECT_EQ(map.levels[48], LevelAt(49.0 / 98));
  EXPECT_EQ(map.largest, 1000);
  // Masked cells are none of those that are counted.
  for (size_t i = 0; i < 50; ++i) figure.maps[0].values[i] = kNanCell;
  EXPECT_EQ(LevelsOfOne(figure).range.high, 99);
  figure.saturated = 0;
  EXPECT_EQ(LevelsOfOne(figure).range.high, 1000);
  EXPECT_FALSE(LevelsOfOne(figure).range.above);
}

TEST(HeatmapLevelsTest, SaturationLeavesSomethingToSee) {
  // One weight among zeros: nothing but zeros would be within the range.
  HeatmapFigure figure = FigureOf(1, 4, {0, 0, 0, 1});
  figure.saturated = 0.5;
  for (const bool logarithmic : {false, true}) {
    figure.logarithmic = logarithmic;
    const LevelMap map = LevelsOfOne(figure);
    EXPECT_EQ(map.levels, (Levels{0, 0, 0, kTop}));
    EXPECT_EQ(map.range.high, 1);
    EXPECT_FALSE(map.range.above);
  }
  // Equal values, and one above them.
  figure = FigureOf(1, 4, {1, 1, 1, 5});
  figure.saturated = 0.5;
  figure.logarithmic = true;
  EXPECT_EQ(LevelsOfOne(figure).levels, Levels(4, kTop));
  EXPECT_TRUE(LevelsOfOne(figure).range.above);
}

TEST(HeatmapLevelsTest, MapsHaveTheirOwnRangeUnlessItIsCommon) {
  HeatmapFigure figure = FigureOf(1, 2, {0.5f, 1});
  figure.maps.push_back(FigureOf(1, 3, {1, 2, kNanCell}).maps[0]);
  std::vector<LevelMap> maps = LevelsOf(figure, 100);
  EXPECT_EQ(maps[0].levels, (Levels{127, kTop}));
  EXPECT_EQ(maps[1].levels, (Levels{127, kTop, kMaskedLevel}));
  figure.common_range = true;
  maps = LevelsOf(figure, 100);
  EXPECT_EQ(maps[0].levels, (Levels{63, 127}));
  EXPECT_EQ(maps[1].levels, (Levels{127, kTop, kMaskedLevel}));
  EXPECT_EQ(maps[0].range.high, 2);
}

TEST(HeatmapLevelsTest, LongMapsAreAveragedOverBlocks) {
  // Blocks of two; those of the last row and column are smaller. 253 of the largest is its level.
  const std::vector<float> values = {0,   2,   100, 104, 253,  //
                                     4,   6,   102, 106, 253,  //
                                     200, 210, 1,   1,   7,    //
                                     202, 212, 1,   1,   9,    //
                                     20,  22,  30,  34,  50};
  const LevelMap map = LevelsOfOne(FigureOf(5, 5, values), 3);
  EXPECT_EQ(map.block, 2);
  EXPECT_EQ(map.rows, 3);
  EXPECT_EQ(map.columns, 3);
  EXPECT_EQ(map.levels, (Levels{3, 103, 253, 206, 1, 8, 21, 32, 50}));
  EXPECT_EQ(LevelsOfOne(FigureOf(5, 5, values), 5).block, 1);
}

TEST(HeatmapLevelsTest, BlocksAreAsSmallAsTheLongerSideAllows) {
  for (const int64_t length : {1, 9, 10, 11, 20, 21, 100, 101}) {
    for (const bool tall : {false, true}) {
      const std::vector<float> values(static_cast<size_t>(2 * length), 1.0f);
      const LevelMap map =
          LevelsOfOne(tall ? FigureOf(length, 2, values) : FigureOf(2, length, values), 10);
      const int64_t drawn = tall ? map.rows : map.columns;
      EXPECT_LE(drawn, 10);
      EXPECT_EQ(map.block, std::max<int64_t>(1, (length + 9) / 10)) << length;
      EXPECT_EQ(tall ? map.columns : map.rows, map.block == 1 ? 2 : 1);
      EXPECT_EQ(map.levels.size(), static_cast<size_t>(map.rows * map.columns));
    }
  }
}

TEST(HeatmapLevelsTest, MaskedCellsAreNoPartOfAMean) {
  const LevelMap map = LevelsOfOne(FigureOf(2, 6,
                                            {10, kNanCell, kNanCell, kNanCell, 253, 253,  //
                                             20, kNanCell, kNanCell, kNanCell, 253, 253}),
                                   3);
  EXPECT_EQ(map.levels, (Levels{15, kMaskedLevel, 253}));
}

TEST(HeatmapLevelsTest, ColoursRangeOverMeansAndFactsOverValues) {
  const LevelMap map = LevelsOfOne(FigureOf(1, 4, {0, 8, 1, 1}), 2);
  EXPECT_EQ(map.range.high, 4);
  EXPECT_EQ(map.largest, 8);
}

TEST(HeatmapLevelsTest, SizesThatDoNotFitTheValuesAreNamed) {
  EXPECT_TRUE(Contains(LevelsMessageOf(FigureOf(0, 3, {})), "\"a map\" has 0 rows and 3 columns"));
  EXPECT_TRUE(Contains(LevelsMessageOf(FigureOf(3, -1, {})), "-1 columns"));
  EXPECT_TRUE(
      Contains(LevelsMessageOf(FigureOf(2, 2, {1, 2, 3})), "3 values for 2 rows and 2 columns"));
  EXPECT_TRUE(Contains(LevelsMessageOf(FigureOf(2, 2, {1, 2, 3, 4, 5})), "5 values"));
  EXPECT_TRUE(Contains(LevelsMessageOf(FigureOf(2, 2, {})), "0 values"));
  // Their product is 2^64: 0, to a computer that multiplies first.
  EXPECT_TRUE(
      Contains(LevelsMessageOf(FigureOf(int64_t{1} << 32, int64_t{1} << 32, {})), "0 values"));
}

TEST(HeatmapLevelsTest, ValuesWithoutAColourAreNamedWithTheirPlace) {
  EXPECT_TRUE(Contains(LevelsMessageOf(FigureOf(2, 2, {1, 2, kInfiniteCell, 4})),
                       "inf at row 1, column 0"));
  EXPECT_TRUE(Contains(LevelsMessageOf(FigureOf(2, 2, {1, -kInfiniteCell, 3, 4})),
                       "-inf at row 0, column 1"));
  HeatmapFigure figure = FigureOf(1, 3, {1, 0, -0.5f});
  EXPECT_EQ(LevelsMessageOf(figure), "");
  figure.logarithmic = true;
  EXPECT_TRUE(Contains(LevelsMessageOf(figure), "-0.5 at row 0, column 2"));
  EXPECT_TRUE(Contains(LevelsMessageOf(figure), "logarithmic"));
}

TEST(HeatmapLevelsTest, NothingToDrawIsAnError) {
  EXPECT_TRUE(Contains(LevelsMessageOf({"empty figure", "", {}}), "empty figure"));
  EXPECT_TRUE(
      Contains(LevelsMessageOf(FigureOf(1, 2, {kNanCell, kNanCell})), "every cell is masked"));
  HeatmapFigure figure = FigureOf(1, 2, {0, kNanCell});
  EXPECT_EQ(LevelsMessageOf(figure), "");
  figure.logarithmic = true;
  EXPECT_TRUE(Contains(LevelsMessageOf(figure), "\"a map\" on a logarithmic scale"));
  figure.common_range = true;
  EXPECT_TRUE(Contains(LevelsMessageOf(figure), "\"a figure\" on a logarithmic scale"));
}

TEST(HeatmapLevelsTest, LabelsAreOneACellOrNone) {
  HeatmapFigure figure = FigureOf(1, 2, {1, 2});
  figure.maps[0].row_labels = {"a"};
  figure.maps[0].column_labels = {"a", "b"};
  EXPECT_EQ(LevelsMessageOf(figure), "");
  figure.maps[0].column_labels = {"a", "b", "c"};
  EXPECT_TRUE(Contains(LevelsMessageOf(figure), "3 labels for 2 columns"));
  figure.maps[0].column_labels = {};
  figure.maps[0].row_labels = {"a", "b"};
  EXPECT_TRUE(Contains(LevelsMessageOf(figure), "2 labels for 1 rows"));
}

TEST(HeatmapLevelsTest, TheShareOfSaturatedCellsIsChecked) {
  HeatmapFigure figure = FigureOf(1, 2, {1, 2});
  for (const double share : {-0.1, 1.0, 5.0, std::nan("")}) {
    figure.saturated = share;
    EXPECT_TRUE(Contains(LevelsMessageOf(figure), "from 0 to less than 1"));
  }
  figure.saturated = 0.999999;
  EXPECT_EQ(LevelsMessageOf(figure), "");
}

TEST(HeatmapLevelsTest, TheLargestAndTheSmallestFloatsHaveColours) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(LevelsOfOne(FigureOf(1, 3, {-kLargest, 0, kLargest})).levels, (Levels{0, 127, kTop}));
  EXPECT_EQ(LevelsOfOne(FigureOf(1, 2, {0, kSmallest})).levels, (Levels{0, kTop}));
  HeatmapFigure figure = FigureOf(1, 3, {0, kSmallest, kLargest});
  figure.logarithmic = true;
  EXPECT_EQ(LevelsOfOne(figure).levels, (Levels{0, 0, kTop}));
  figure = FigureOf(1, 2, {0, kSmallest});
  figure.logarithmic = true;
  EXPECT_EQ(LevelsOfOne(figure).levels, (Levels{0, kTop}));
}

}  // namespace
}  // namespace cosformer::report
