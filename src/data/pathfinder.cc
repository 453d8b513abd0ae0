#include "data/pathfinder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <optional>

#include "cosformer/error.h"
#include "kernels/random.h"

namespace cosformer::data {
namespace {

constexpr int kPadding = 1;       // pixels at the edge that no path enters
constexpr int kSeedDistance = 7;  // between the beginnings of the long paths
constexpr int kPaddleTrials = 3;  // for one paddle, before its path is given up
constexpr int kDistractorTrials = 5;
constexpr double kPathContrast = 2 * 0.75;
constexpr double kDistractorContrast = 2;
// A place is free below this, and two fences may stand together below that.
constexpr float kFree = 0.3f;
constexpr double kMostOverlap = 1.8;
// Distractors are sought while so much of the image is free.
constexpr double kLeastFree = 0.01;

// A path that grows: its last paddle, which is not fenced yet, since the next one touches it.
struct Tip {
  PathfinderPoint place;
  PathfinderPoint pivot;
  const PaddleDirection* direction = nullptr;
  const Paddle* paddle = nullptr;
};

void Draw(PathfinderGrid& image, const Tip& tip, double contrast) {
  ForPatch(tip.place, [&](PathfinderPoint p, size_t i) {
    image[p] = std::max(image[p], static_cast<float>(contrast * tip.paddle->line[i]));
  });
}

void Fence(PathfinderGrid& fences, const Tip& tip) {
  ForPatch(tip.place, [&](PathfinderPoint p, size_t i) {
    fences[p] = std::max(fences[p], static_cast<float>(tip.paddle->fence[i]));
  });
}

bool Overlaps(const PathfinderGrid& fences, const Tip& tip) {
  bool overlaps = false;
  ForPatch(tip.place, [&](PathfinderPoint p, size_t i) {
    overlaps |= fences[p] + tip.paddle->fence[i] >= kMostOverlap;
  });
  return overlaps;
}

// The highest fence at a place or beside it.
float FenceNear(const PathfinderGrid& fences, PathfinderPoint place) {
  float highest = fences[place];
  for (const PathfinderPoint side : {PathfinderPoint{-1, 0}, {1, 0}, {0, -1}, {0, 1}}) {
    if ((place + side).Inside()) highest = std::max(highest, fences[place + side]);
  }
  return highest;
}

Tip FirstTip(const PaddleDirection& direction, PathfinderPoint tail) {
  return {tail, direction.FirstPivot(tail), &direction, &direction.ahead};
}

const PaddleDirection& AnyDirection(Random& random) {
  const auto& all = AllPaddleDirections().first;
  return all[random.Below(all.size())];
}

// Where a first paddle can begin.
std::vector<PathfinderPoint> FreeTails(const PathfinderGrid& fences,
                                       const PaddleDirection& direction) {
  std::vector<PathfinderPoint> tails;
  if (!direction.begins) return tails;
  for (int y = 0; y < kPathfinderSize; ++y) {
    for (int x = 0; x < kPathfinderSize; ++x) {
      const PathfinderPoint tail{y, x};
      const bool free = std::ranges::none_of(direction.footprint, [&](PathfinderPoint offset) {
        return (tail + offset).Inside() && fences[tail + offset] > kFree;
      });
      if (free) tails.push_back(tail);
    }
  }
  return tails;
}

PathfinderGrid FencedFrame(int width) {
  PathfinderGrid fences;
  for (int y = 0; y < kPathfinderSize; ++y) {
    for (int x = 0; x < kPathfinderSize; ++x) {
      const int to_edge = std::min({y, x, kPathfinderSize - 1 - y, kPathfinderSize - 1 - x});
      if (to_edge < width) fences[{y, x}] = 1;
    }
  }
  return fences;
}

// The next paddle of a path, if there is room for one. The one before it is fenced then.
std::optional<Tip> Extend(const Tip& last, PathfinderGrid& fences, Random& random) {
  const auto& next = AllPaddleDirections().next;
  const PathfinderPoint pivot = last.direction->NextPivot(last.pivot);
  std::vector<double> sums(next.size());  // of the probabilities, up to each
  double sum = 0;
  for (size_t i = 0; i < next.size(); ++i) {
    const PathfinderPoint head = pivot + next[i].offset;
    if (head.Inside()) sum += last.direction->turns[i] * (1 - FenceNear(fences, head));
    sums[i] = sum;
  }
  if (sum < 1e-4) return std::nullopt;
  for (int trial = 0; trial < kPaddleTrials; ++trial) {
    // The product can be rounded up to the sum itself.
    const double at = std::min(random.Uniform() * sum, std::nextafter(sum, 0));
    const size_t chosen =
        static_cast<size_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
    const PaddleDirection& direction = next[chosen];
    const Tip tip{pivot + direction.offset, pivot, &direction, &direction.behind};
    if (Overlaps(fences, tip)) continue;
    Fence(fences, last);
    return tip;
  }
  return std::nullopt;
}

// The beginnings of the two long paths: one in the middle, one at some distance from it.
std::optional<std::array<Tip, 2>> SeedPaths(const PathfinderGrid& middle, Random& random) {
  const PaddleDirection& direction = AnyDirection(random);
  const std::vector<PathfinderPoint> tails = FreeTails(middle, direction);
  if (tails.empty()) return std::nullopt;
  const PathfinderPoint tail = tails[random.Below(tails.size())];
  const PaddleDirection& other = AnyDirection(random);
  const double angle = static_cast<double>(random.Below(360)) * std::numbers::pi / 180;
  const PathfinderPoint distance{static_cast<int>(std::lround(kSeedDistance * std::sin(angle))),
                                 static_cast<int>(std::lround(kSeedDistance * std::cos(angle)))};
  return {{FirstTip(direction, tail), FirstTip(other, tail + distance)}};
}

using Path = std::vector<Tip>;

// Two paths that grow in turns, so that each goes round the other; nothing if one finds no room.
// Of the paddles at their ends only the second path's is fenced: so the published images were made.
std::optional<std::array<Path, 2>> GrowPaths(int length, PathfinderGrid& fences, Random& random) {
  static const PathfinderGrid frame = FencedFrame(kPadding);
  static const PathfinderGrid middle = FencedFrame(2 * kSeedDistance);
  const auto seeds = SeedPaths(middle, random);
  if (!seeds) return std::nullopt;
  fences = frame;
  std::array<Path, 2> paths{Path{seeds->front()}, Path{seeds->back()}};
  for (int paddle = 1; paddle < length; ++paddle) {
    for (Path& path : paths) {
      const auto tip = Extend(path.back(), fences, random);
      if (!tip) return std::nullopt;
      path.push_back(*tip);
    }
  }
  Fence(fences, paths[1].back());
  return paths;
}

std::optional<Tip> SeedDistractor(const PathfinderGrid& fences, Random& random) {
  const auto free = std::ranges::count_if(fences.values, [](float f) { return f <= kFree; });
  if (static_cast<double>(free) < kLeastFree * static_cast<double>(fences.values.size())) {
    return std::nullopt;
  }
  for (int trial = 0; trial < kPaddleTrials; ++trial) {
    const PaddleDirection& direction = AnyDirection(random);
    const std::vector<PathfinderPoint> tails = FreeTails(fences, direction);
    if (tails.empty()) return std::nullopt;
    const Tip tip = FirstTip(direction, tails[random.Below(tails.size())]);
    if (direction.FirstHead(tip.place).Inside() && tip.pivot.Inside()) return tip;
  }
  return std::nullopt;
}

// A short path, which is fenced; nothing, and no fence, if there is no room.
std::optional<Path> GrowDistractor(int length, PathfinderGrid& fences, Random& random) {
  const auto seed = SeedDistractor(fences, random);
  if (!seed) return std::nullopt;
  PathfinderGrid new_fences = fences;
  Path path{*seed};
  for (int paddle = 1; paddle < length; ++paddle) {
    const auto tip = Extend(path.back(), new_fences, random);
    if (!tip) return std::nullopt;
    path.push_back(*tip);
  }
  Fence(new_fences, path.back());
  fences = new_fences;
  return path;
}

PathfinderPath DrawPath(PathfinderGrid& image, const Path& path, double contrast) {
  PathfinderPath placed;
  for (const Tip& tip : path) {
    Draw(image, tip, contrast);
    placed.push_back({tip.place, tip.direction->angle});
  }
  return placed;
}

void AddMarkers(Random& random, PathfinderScene& scene, PathfinderGrid& image) {
  const size_t from = random.Below(2);
  const size_t to = scene.joined ? from : 1 - from;
  scene.markers = {scene.paths[from].front().place, scene.paths[to].back().place};
  for (const PathfinderPoint place : scene.markers) {
    const PathfinderGrid marker = DrawPathfinderMarker(place);
    std::ranges::transform(image.values, marker.values, image.values.begin(),
                           [](float a, float b) { return std::max(a, b); });
  }
}

}  // namespace

PathfinderScene MakePathfinder(const PathfinderOptions& options, int64_t index) {
  const int distractor_length = options.contour_length / 3;
  const int distractors = 20 / distractor_length;
  Random random(options.seed, static_cast<uint64_t>(index));
  PathfinderScene scene;
  // The streams of pairs count down from the end, those of images up from 0.
  const uint64_t first_of_pair = Random(options.seed, ~static_cast<uint64_t>(index / 2)).Below(2);
  scene.joined = static_cast<uint64_t>(index % 2) == first_of_pair;

  PathfinderGrid fences, image;
  std::optional<std::array<Path, 2>> paths;
  while (!paths) paths = GrowPaths(options.contour_length, fences, random);
  for (size_t i = 0; i < 2; ++i) scene.paths[i] = DrawPath(image, (*paths)[i], kPathContrast);
  for (int i = 0; i < distractors; ++i) {
    for (int trial = 0; trial < kDistractorTrials; ++trial) {
      const auto path = GrowDistractor(distractor_length, fences, random);
      if (!path) continue;
      scene.distractors.push_back(DrawPath(image, *path, kDistractorContrast));
      break;
    }
  }
  AddMarkers(random, scene, image);

  // The brightest pixel becomes white. In double precision, which rounds the many values that are
  // near one half as those of the published images were.
  const double scale = 255.0 / *std::ranges::max_element(image.values);
  std::ranges::transform(image.values, scene.pixels.begin(), [scale](float value) {
    return static_cast<uint8_t>(value * scale + 0.5);
  });
  return scene;
}

void GeneratePathfinder(const std::string& directory, const PathfinderOptions& options,
                        const GenerationProgress& progress) {
  // Below 3, distractors have no paddle; above 20, hardly any two paths find room.
  if (options.contour_length < 3 || options.contour_length > 20) {
    throw Error(
        fmt::format("Pathfinder: the paths have {} paddles, and can have 3 to 20 (6 is "
                    "easy, 9 intermediate, 14 hard)",
                    options.contour_length));
  }
  const GeneratedSet set{.directory = directory,
                         .parts = {{"train.bin", options.train},
                                   {"valid.bin", options.valid},
                                   {"test.bin", options.test}},
                         .header = "",
                         .threads = options.threads};
  WriteGeneratedSet(
      set,
      [&](int64_t index) {
        const PathfinderScene scene = MakePathfinder(options, index);
        std::string record(1, scene.joined ? '\1' : '\0');
        record.append(scene.pixels.begin(), scene.pixels.end());
        return record;
      },
      progress);
}

}  // namespace cosformer::data
