// The paddles that Pathfinder's paths are dashed with, and its markers: drawn at twice the size and
// made smaller with Lanczos' filter, in bytes, whose rounding and cut-off ringing the published
// images show.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cosformer::data {

constexpr int kPathfinderSize = 32;  // pixels a side

struct PathfinderPoint {
  int y = 0, x = 0;

  bool operator==(const PathfinderPoint&) const = default;
  PathfinderPoint operator+(PathfinderPoint other) const { return {y + other.y, x + other.x}; }
  bool Inside() const { return y >= 0 && y < kPathfinderSize && x >= 0 && x < kPathfinderSize; }
};

// A whole image of values from 0 to 1, or of more where contrast makes them more.
struct PathfinderGrid {
  std::array<float, kPathfinderSize * kPathfinderSize> values{};

  float& operator[](PathfinderPoint p) { return values[Index(p)]; }
  float operator[](PathfinderPoint p) const { return values[Index(p)]; }

 private:
  static size_t Index(PathfinderPoint p) {
    return static_cast<size_t>(p.y * kPathfinderSize + p.x);
  }
};

// One paddle around the point where it begins.
struct Paddle {
  static constexpr int kReach = 4;  // pixels from the beginning to the edge
  static constexpr int kSide = 2 * kReach + 1;
  using Patch = std::array<double, kSide * kSide>;

  Patch line;
  Patch fence;  // the line and what is to stay free around it
};

// Calls take(point, offset into a patch) for what is inside the image of a patch around `centre`.
template <class Take>
void ForPatch(PathfinderPoint centre, Take take) {
  const PathfinderPoint corner = centre + PathfinderPoint{-Paddle::kReach, -Paddle::kReach};
  const PathfinderPoint end{std::min(corner.y + Paddle::kSide, kPathfinderSize),
                            std::min(corner.x + Paddle::kSide, kPathfinderSize)};
  for (int y = std::max(corner.y, 0); y < end.y; ++y) {
    for (int x = std::max(corner.x, 0); x < end.x; ++x) {
      take(PathfinderPoint{y, x},
           static_cast<size_t>((y - corner.y) * Paddle::kSide + (x - corner.x)));
    }
  }
}

// A direction by its sine and cosine.
struct Heading {
  explicit Heading(double angle);

  double sine, cosine;
};
// The place at a distance, rounded up. Even what is above a whole number by the rounding error of
// sin(pi) alone is rounded up: it keeps paths off the upper and left edges, and so it was for the
// published images.
PathfinderPoint Translate(PathfinderPoint from, Heading heading, double distance);

// All about a direction that a paddle can point in. A path turns on a pivot behind each paddle.
struct PaddleDirection {
  explicit PaddleDirection(double angle);

  PathfinderPoint FirstHead(PathfinderPoint tail) const;   // where a path begins with it
  PathfinderPoint FirstPivot(PathfinderPoint tail) const;  // likewise
  PathfinderPoint NextPivot(PathfinderPoint pivot) const;  // that of the paddle after it

  double angle;              // of (sin, cos) = (y, x), from -pi to pi
  Heading heading, reverse;  // there, and back
  Paddle ahead;              // from the tail, where a path begins with it
  Paddle behind;             // from the head, where a path goes on with it
  PathfinderPoint offset;    // where a path goes on with it: from the pivot to the head
  // Relative to a tail: what must be free where a path begins with it.
  std::vector<PathfinderPoint> footprint;
  // Whether a path is begun with it where it has to be free. In the generator of the published
  // images the search fails as soon as some footprint, wherever in the image, is wholly outside of
  // it: only paddles that point up and left, 1 of 12, pass.
  bool begins;
  // How likely a path turns into each of the next directions: cos^2 of the angle up to a right one.
  std::vector<double> turns;
};

struct PaddleDirections {
  std::vector<PaddleDirection> first;  // of a path's first paddle: whole degrees
  std::vector<PaddleDirection> next;   // of the others: pixels on a circle around the pivot
};
// Drawn at the first call.
const PaddleDirections& AllPaddleDirections();

// The disc that marks the end of a path, of values 0 to 1, on a black image.
PathfinderGrid DrawPathfinderMarker(PathfinderPoint centre);

// A line of white pixels on a square of bytes: Bresenham's. `side` is the side of the square.
void DrawThinLine(std::vector<uint8_t>& square, int side, PathfinderPoint from, PathfinderPoint to);

// A smaller square from a larger one, row by row and then column by column, in bytes after each.
std::vector<uint8_t> ShrinkSquare(const std::vector<uint8_t>& square, int side, int smaller_side);

}  // namespace cosformer::data
