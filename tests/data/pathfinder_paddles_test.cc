// Lines, discs and the filter, each against its definition.
#include "data/pathfinder_paddles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <vector>

#include "kernels/random.h"

namespace cosformer::data {
namespace {

constexpr double kPi = std::numbers::pi;

double Lanczos(double x) {
  if (x == 0) return 1;
  if (std::abs(x) >= 3) return 0;
  return 3 * std::sin(kPi * x) * std::sin(kPi * x / 3) / (kPi * kPi * x * x);
}

// One pixel of the smaller square in one sum over all pixels, without rounding on the way.
double ShrunkPixel(const std::vector<uint8_t>& square, int side, int smaller, int y, int x) {
  const double scale = static_cast<double>(side) / smaller;
  double sum = 0, weights = 0;
  for (int i = 0; i < side; ++i) {
    for (int j = 0; j < side; ++j) {
      const double weight =
          Lanczos((i + 0.5) / scale - y - 0.5) * Lanczos((j + 0.5) / scale - x - 0.5);
      sum += weight * square[static_cast<size_t>(i * side + j)];
      weights += weight;
    }
  }
  return std::clamp(sum / weights, 0.0, 255.0);
}

// Smooth squares, which the rounding and cutting off between the passes hardly touches.
TEST(PathfinderPaddles, ShrinkingIsLanczosFilter) {
  Random random(1);
  for (const auto& [side, smaller] : {std::pair{17, 9}, {64, 32}, {10, 10}, {21, 4}}) {
    std::vector<uint8_t> square(static_cast<size_t>(side * side));
    for (uint8_t& pixel : square) pixel = static_cast<uint8_t>(100 + random.Below(50));
    const std::vector<uint8_t> shrunk = ShrinkSquare(square, side, smaller);
    ASSERT_EQ(shrunk.size(), static_cast<size_t>(smaller * smaller));
    for (int y = 0; y < smaller; ++y) {
      for (int x = 0; x < smaller; ++x) {
        // Half a step from each pass; the first one's is spread by weights whose sizes sum to 1.5.
        EXPECT_NEAR(shrunk[static_cast<size_t>(y * smaller + x)],
                    ShrunkPixel(square, side, smaller, y, x), 0.5 + 0.5 * 1.5);
      }
    }
  }
}

TEST(PathfinderPaddles, ShrinkingCutsOffWhatRings) {
  std::vector<uint8_t> square(17 * 17);
  for (size_t y = 0; y < 17; ++y) std::fill_n(square.begin() + static_cast<int>(y * 17), 8, 255);
  const std::vector<uint8_t> shrunk = ShrinkSquare(square, 17, 9);
  EXPECT_EQ(shrunk[3], 255);  // it would be more
  EXPECT_EQ(shrunk[5], 0);    // it would be less
}

TEST(PathfinderPaddles, ThinLinesStayWithinHalfAPixel) {
  for (int y = -4; y <= 4; ++y) {
    for (int x = -4; x <= 4; ++x) {
      std::vector<uint8_t> square(9 * 9);
      DrawThinLine(square, 9, {4, 4}, {4 + y, 4 + x});
      const int steps = std::max(std::abs(y), std::abs(x));
      EXPECT_EQ(std::count(square.begin(), square.end(), 255), steps + 1);
      EXPECT_EQ(square[4 * 9 + 4], 255);
      EXPECT_EQ(square[static_cast<size_t>((4 + y) * 9 + 4 + x)], 255);
      for (int i = 0; i < 81; ++i) {
        if (square[static_cast<size_t>(i)] == 0) continue;
        // The distance from the line along the shorter axis: the cross product over the longer one.
        const int cross = std::abs((i / 9 - 4) * x - (i % 9 - 4) * y);
        EXPECT_LE(2 * cross, std::max(steps, 0));
      }
    }
  }
}

TEST(PathfinderPaddles, APaddlePointsWhereItsDirectionDoes) {
  for (const auto* all : {&AllPaddleDirections().first, &AllPaddleDirections().next}) {
    for (const PaddleDirection& direction : *all) {
      for (const bool ahead : {true, false}) {
        const Paddle::Patch& line = ahead ? direction.ahead.line : direction.behind.line;
        double y = 0, x = 0, sum = 0;
        for (int i = 0; i < Paddle::kSide * Paddle::kSide; ++i) {
          const double value = line[static_cast<size_t>(i)];
          y += value * (i / Paddle::kSide - Paddle::kReach);
          x += value * (i % Paddle::kSide - Paddle::kReach);
          sum += value;
        }
        const double sign = ahead ? 1 : -1;
        // The middle of a paddle of length 2 is 1 ahead; places were rounded up to half pixels.
        EXPECT_NEAR(y / sum, sign * std::sin(direction.angle), 0.4);
        EXPECT_NEAR(x / sum, sign * std::cos(direction.angle), 0.4);
      }
    }
  }
}

TEST(PathfinderPaddles, AFenceCoversItsLine) {
  for (const PaddleDirection& direction : AllPaddleDirections().next) {
    for (size_t i = 0; i < direction.behind.line.size(); ++i) {
      // But for what rings.
      if (direction.behind.line[i] > 0.1) {
        EXPECT_GT(direction.behind.fence[i], 0.5);
      }
    }
  }
}

TEST(PathfinderPaddles, PathsTurnAsTheSquareOfTheCosine) {
  const PaddleDirections& all = AllPaddleDirections();
  ASSERT_EQ(all.first.size(), 360u);
  ASSERT_EQ(all.next.size(), 18u);
  for (const auto* from : {&all.first, &all.next}) {
    for (const PaddleDirection& direction : *from) {
      ASSERT_EQ(direction.turns.size(), all.next.size());
      for (size_t i = 0; i < all.next.size(); ++i) {
        const double cosine = std::cos(all.next[i].angle - direction.angle);
        EXPECT_NEAR(direction.turns[i], cosine > 0 ? cosine * cosine : 0, 1e-12);
      }
    }
  }
}

TEST(PathfinderPaddles, PathsBeginUpAndLeft) {
  for (const PaddleDirection& direction : AllPaddleDirections().first) {
    const long degree = std::lround(direction.angle * 180 / kPi);
    EXPECT_EQ(direction.begins, degree >= -150 && degree <= -121) << degree;
  }
}

TEST(PathfinderPaddles, PlacesAreRoundedUp) {
  EXPECT_EQ(Translate({10, 10}, Heading(0), 4), (PathfinderPoint{10, 14}));
  EXPECT_EQ(Translate({10, 10}, Heading(0.1), 4), (PathfinderPoint{11, 14}));
  EXPECT_EQ(Translate({10, 10}, Heading(-0.1), 4), (PathfinderPoint{10, 14}));
  EXPECT_EQ(Translate({10, 10}, Heading(kPi), 4), (PathfinderPoint{10, 6}));
  EXPECT_EQ(Translate({2, 10}, Heading(kPi), 4), (PathfinderPoint{3, 6}));
}

TEST(PathfinderPaddles, AMarkerIsABrightDisc) {
  for (const PathfinderPoint centre : {PathfinderPoint{10, 20}, {1, 1}, {30, 30}, {0, 31}}) {
    const PathfinderGrid marker = DrawPathfinderMarker(centre);
    EXPECT_GT(marker[centre], 0.9);
    for (int y = 0; y < kPathfinderSize; ++y) {
      for (int x = 0; x < kPathfinderSize; ++x) {
        // Pixel y covers the rows 2 y and 2 y + 1 of the drawing, the disc is around row 2 c.
        const double distance = std::hypot(y + 0.25 - centre.y, x + 0.25 - centre.x);
        if (distance < 0.9) {
          EXPECT_GT((marker[{y, x}]), 0.8);
        }
        if (distance > 2.5) {
          EXPECT_LT((marker[{y, x}]), 0.05);
        }
      }
    }
  }
}

}  // namespace
}  // namespace cosformer::data
