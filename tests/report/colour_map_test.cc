// The colours, seen as a reader does: by their luminance and by how far they are apart.
#include "report/colour_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace cosformer::report {
namespace {

struct Lab {
  double lightness = 0;
  double a = 0;
  double b = 0;
};

double Linear(uint8_t sample) {
  const double encoded = sample / 255.0;
  return encoded <= 0.04045 ? encoded / 12.92 : std::pow((encoded + 0.055) / 1.055, 2.4);
}

double Luminance(const Rgb& colour) {
  return 0.2126 * Linear(colour.red) + 0.7152 * Linear(colour.green) + 0.0722 * Linear(colour.blue);
}

// The inverse of what the palette is made with.
Lab LabOf(const Rgb& colour) {
  const double r = Linear(colour.red), g = Linear(colour.green), b = Linear(colour.blue);
  const auto encode = [](double t) {
    return t > std::pow(6.0 / 29, 3) ? std::cbrt(t) : t / (3 * std::pow(6.0 / 29, 2)) + 4.0 / 29;
  };
  const double x = encode((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047);
  const double y = encode(0.2126729 * r + 0.7151522 * g + 0.0721750 * b);
  const double z = encode((0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double Distance(const Lab& one, const Lab& other) {
  return std::hypot(one.lightness - other.lightness, one.a - other.a, one.b - other.b);
}

TEST(ColourMapTest, LuminanceGrowsFromLevelToLevel) {
  for (size_t level = 1; level < kLevels; ++level) {
    EXPECT_LT(Luminance(HeatmapPalette()[level - 1]), Luminance(HeatmapPalette()[level])) << level;
  }
}

TEST(ColourMapTest, LightnessIsProportionalToTheLevel) {
  const double low = LabOf(HeatmapPalette()[0]).lightness;
  const double high = LabOf(HeatmapPalette()[kLevels - 1]).lightness;
  EXPECT_LT(low, 12);
  EXPECT_GT(high, 85);
  for (size_t level = 0; level < kLevels; ++level) {
    const double expected = low + (high - low) * static_cast<double>(level) / (kLevels - 1);
    // A step of all three samples changes L* by at most 0.45 (the slope of L* over grey). Rounding
    // is half of one, here and again at the ends.
    EXPECT_NEAR(LabOf(HeatmapPalette()[level]).lightness, expected, 0.45) << level;
  }
}

TEST(ColourMapTest, EqualStepsOfTheValueLookAlike) {
  // Over 23 levels, a tenth of the scale, rounding is small beside the distance.
  constexpr size_t kStep = 23;
  double nearest = 1e9, farthest = 0;
  for (size_t level = 0; level + kStep < kLevels; ++level) {
    const double distance =
        Distance(LabOf(HeatmapPalette()[level]), LabOf(HeatmapPalette()[level + kStep]));
    nearest = std::min(nearest, distance);
    farthest = std::max(farthest, distance);
  }
  // Corners of the path are 27.0 to 39.4 apart, 50.6 levels each. Rounding moves a colour by less
  // than 0.6.
  EXPECT_GT(nearest, kStep * 27.0 / 50.6 - 1.2);
  EXPECT_LT(farthest, kStep * 39.4 / 50.6 + 1.2);
}

TEST(ColourMapTest, MaskedCellsAreGreyAndLighterThanEveryValue) {
  const Rgb masked = HeatmapPalette()[kMaskedLevel];
  EXPECT_EQ(masked.red, masked.green);
  EXPECT_EQ(masked.green, masked.blue);
  EXPECT_GT(LabOf(masked).lightness, LabOf(HeatmapPalette()[kLevels - 1]).lightness + 5);
  EXPECT_LT(LabOf(masked).lightness, 95);  // and not the page
  EXPECT_EQ(HeatmapPalette()[kPageLevel], (Rgb{255, 255, 255}));
}

TEST(ColourMapTest, SharesOutsideOfTheScaleHaveTheColourOfItsEnds) {
  EXPECT_EQ(LevelAt(-1e300), 0);
  EXPECT_EQ(LevelAt(0), 0);
  EXPECT_EQ(LevelAt(0.5), 127);  // 126.5, away from 0
  EXPECT_EQ(LevelAt(1), kLevels - 1);
  EXPECT_EQ(LevelAt(INFINITY), kLevels - 1);
}

}  // namespace
}  // namespace cosformer::report
