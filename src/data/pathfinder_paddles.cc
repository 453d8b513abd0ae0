#include "data/pathfinder_paddles.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <numbers>

namespace cosformer::data {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr int kLength = 2;        // of a paddle
constexpr int kMargin = 1;        // to be kept free around it
constexpr int kOversampling = 2;  // of the drawings
constexpr double kMarkerRadius = 1.5;
constexpr uint8_t kWhite = 255;

double Reverse(double angle) { return angle < 0 ? angle + kPi : angle - kPi; }

double Sinc(double x) { return x == 0 ? 1 : std::sin(kPi * x) / (kPi * x); }

// Weights of the larger line's pixels in one pixel of the smaller.
struct Taps {
  int first = 0;
  std::vector<double> weights;
};

std::vector<Taps> LanczosTaps(int size, int smaller_size) {
  constexpr double kLobes = 3;
  const double scale = static_cast<double>(size) / smaller_size;
  const double support = kLobes * scale;
  std::vector<Taps> all(static_cast<size_t>(smaller_size));
  for (int i = 0; i < smaller_size; ++i) {
    const double centre = (i + 0.5) * scale;
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = std::max(0, static_cast<int>(centre - support + 0.5));
    const int end = std::min(size, static_cast<int>(centre + support + 0.5));
    double sum = 0;
    for (int j = taps.first; j < end; ++j) {
      const double x = (j + 0.5 - centre) / scale;
      taps.weights.push_back(std::abs(x) < kLobes ? Sinc(x) * Sinc(x / kLobes) : 0);
      sum += taps.weights.back();
    }
    for (double& weight : taps.weights) weight /= sum;
  }
  return all;
}

// One pass, whose result is transposed: two of them shrink a square and leave it as it stood.
std::vector<uint8_t> ShrinkRows(const std::vector<uint8_t>& image, int side,
                                const std::vector<Taps>& taps) {
  const size_t rows = image.size() / static_cast<size_t>(side);
  std::vector<uint8_t> shrunk(rows * taps.size());
  for (size_t y = 0; y < rows; ++y) {
    const uint8_t* row = &image[y * static_cast<size_t>(side)];
    // Most of a marker's image is black.
    if (std::all_of(row, row + side, [](uint8_t v) { return v == 0; })) continue;
    for (size_t x = 0; x < taps.size(); ++x) {
      double sum = 0.5;
      const uint8_t* pixel = row + taps[x].first;
      for (const double weight : taps[x].weights) sum += weight * *pixel++;
      shrunk[x * rows + y] = static_cast<uint8_t>(std::clamp(std::floor(sum), 0.0, 255.0));
    }
  }
  return shrunk;
}

std::vector<uint8_t> Shrink(const std::vector<uint8_t>& square, int side,
                            const std::vector<Taps>& taps) {
  return ShrinkRows(ShrinkRows(square, side, taps), side, taps);
}

// Every white pixel grows into a disc.
std::vector<uint8_t> Dilate(const std::vector<uint8_t>& square, int side, int radius) {
  std::vector<uint8_t> dilated(square.size());
  const auto at = [side](int y, int x) { return static_cast<size_t>(y * side + x); };
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      if (square[at(y, x)] == 0) continue;
      for (int dy = -radius; dy <= radius; ++dy) {
        for (int dx = -radius; dx <= radius; ++dx) {
          const bool inside = y + dy >= 0 && y + dy < side && x + dx >= 0 && x + dx < side;
          if (inside && dy * dy + dx * dx <= radius * radius) dilated[at(y + dy, x + dx)] = kWhite;
        }
      }
    }
  }
  return dilated;
}

Paddle DrawPaddle(Heading heading) {
  constexpr int kCentre = Paddle::kReach * kOversampling;
  constexpr int kSide = 2 * kCentre + 1;
  const PathfinderPoint centre{kCentre, kCentre};
  std::vector<uint8_t> line(kSide * kSide);
  DrawThinLine(line, kSide, centre, Translate(centre, heading, kLength * kOversampling));
  const auto patch = [](const std::vector<uint8_t>& large) {
    const std::vector<uint8_t> small = ShrinkSquare(large, kSide, Paddle::kSide);
    Paddle::Patch values;
    std::transform(small.begin(), small.end(), values.begin(),
                   [](uint8_t v) { return static_cast<double>(v) / kWhite; });
    return values;
  };
  return {patch(line), patch(Dilate(line, kSide, kMargin * kOversampling))};
}

// The pixels of a paddle's fence that are wholly white, within the square around its middle that
// can be reached. One further down and right than it stands: so the published images were made.
std::vector<PathfinderPoint> Footprint(const Paddle& paddle) {
  constexpr int kWindow = 2 * (kLength + kMargin) + 1;
  std::vector<PathfinderPoint> footprint;
  for (int y = 0; y < kWindow; ++y) {
    for (int x = 0; x < kWindow; ++x) {
      if (paddle.fence[static_cast<size_t>(y * Paddle::kSide + x)] < 1) continue;
      footprint.push_back({y - kWindow / 2, x - kWindow / 2});
    }
  }
  assert(!footprint.empty());
  return footprint;
}

// Whether the footprint at every place has a pixel in the image: it has if it does in the corners.
bool ReachesInside(const std::vector<PathfinderPoint>& footprint) {
  constexpr int kLast = kPathfinderSize - 1;
  constexpr PathfinderPoint kCorners[] = {{0, 0}, {0, kLast}, {kLast, 0}, {kLast, kLast}};
  return std::ranges::all_of(kCorners, [&](PathfinderPoint corner) {
    return std::ranges::any_of(footprint,
                               [&](PathfinderPoint offset) { return (corner + offset).Inside(); });
  });
}

void SetTurns(PaddleDirection& direction, const std::vector<PaddleDirection>& next) {
  for (const PaddleDirection& to : next) {
    const double turn = std::abs(std::remainder(to.angle - direction.angle, 2 * kPi));
    const double cosine = std::cos(std::min(turn, kPi / 2));
    direction.turns.push_back(cosine * cosine);
  }
}

PaddleDirections MakeDirections() {
  PaddleDirections all;
  for (int degree = -180; degree < 180; ++degree) {
    all.first.emplace_back(degree * kPi / 180);
  }
  // Points a pixel apart on the circle.
  constexpr int kRadius = kLength + kMargin;
  for (int i = 0; i < 2 * kPi * kRadius; ++i) {
    const double angle = static_cast<double>(i) / kRadius;
    const PathfinderPoint offset{static_cast<int>(std::floor(kRadius * std::sin(angle))),
                                 static_cast<int>(std::floor(kRadius * std::cos(angle)))};
    const auto same = [&](const PaddleDirection& other) { return other.offset == offset; };
    if (std::ranges::any_of(all.next, same)) continue;
    all.next.emplace_back(std::atan2(offset.y, offset.x));
    all.next.back().offset = offset;
  }
  for (PaddleDirection& direction : all.first) SetTurns(direction, all.next);
  // Copied: the directions change while they are read.
  const std::vector<PaddleDirection> next = all.next;
  for (PaddleDirection& direction : all.next) SetTurns(direction, next);
  return all;
}

}  // namespace

Heading::Heading(double angle) : sine(std::sin(angle)), cosine(std::cos(angle)) {}

PathfinderPoint Translate(PathfinderPoint from, Heading heading, double distance) {
  return {static_cast<int>(std::ceil(from.y + distance * heading.sine)),
          static_cast<int>(std::ceil(from.x + distance * heading.cosine))};
}

PaddleDirection::PaddleDirection(double angle)
    : angle(angle),
      heading(angle),
      reverse(Reverse(angle)),
      ahead(DrawPaddle(heading)),
      behind(DrawPaddle(reverse)),
      footprint(Footprint(ahead)),
      begins(ReachesInside(footprint)) {}

PathfinderPoint PaddleDirection::FirstHead(PathfinderPoint tail) const {
  return Translate(tail, heading, kLength);
}

PathfinderPoint PaddleDirection::FirstPivot(PathfinderPoint tail) const {
  return Translate(FirstHead(tail), reverse, kLength + kMargin);
}

PathfinderPoint PaddleDirection::NextPivot(PathfinderPoint pivot) const {
  return Translate(pivot, heading, kLength + 2 * kMargin);
}

void DrawThinLine(std::vector<uint8_t>& square, int side, PathfinderPoint from,
                  PathfinderPoint to) {
  const int dy = to.y - from.y, dx = to.x - from.x;
  const int steps = std::max(std::abs(dy), std::abs(dx));
  // The nearer pixel; the further one where both are equally near.
  const auto part = [steps](int i, int whole) {
    if (steps == 0) return 0;
    const int distance = (2 * i * std::abs(whole) + steps) / (2 * steps);
    return whole < 0 ? -distance : distance;
  };
  for (int i = 0; i <= steps; ++i) {
    const int y = from.y + part(i, dy), x = from.x + part(i, dx);
    square[static_cast<size_t>(y * side + x)] = kWhite;
  }
}

std::vector<uint8_t> ShrinkSquare(const std::vector<uint8_t>& square, int side, int smaller_side) {
  assert(square.size() == static_cast<size_t>(side) * static_cast<size_t>(side));
  return Shrink(square, side, LanczosTaps(side, smaller_side));
}

const PaddleDirections& AllPaddleDirections() {
  static const PaddleDirections all = MakeDirections();
  return all;
}

PathfinderGrid DrawPathfinderMarker(PathfinderPoint centre) {
  constexpr int kSide = kPathfinderSize * kOversampling;
  constexpr double kRadius = kMarkerRadius * kOversampling;
  static const std::vector<Taps> taps = LanczosTaps(kSide, kPathfinderSize);
  std::vector<uint8_t> large(kSide * kSide);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int dy = y - centre.y * kOversampling, dx = x - centre.x * kOversampling;
      if (dy * dy + dx * dx <= kRadius * kRadius)
        large[static_cast<size_t>(y * kSide + x)] = kWhite;
    }
  }
  const std::vector<uint8_t> small = Shrink(large, kSide, taps);
  PathfinderGrid marker;
  std::transform(small.begin(), small.end(), marker.values.begin(),
                 [](uint8_t v) { return static_cast<float>(v) / kWhite; });
  return marker;
}

}  // namespace cosformer::data
