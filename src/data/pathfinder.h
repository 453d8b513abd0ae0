// Pathfinder as Long-Range Arena has it, 32 x 32: two long dashed paths among shorter ones, two
// markers, and the question whether one path joins the markers. The rules are those of Linsley et
// al.'s generator with Long-Range Arena's parameters, so that results compare with published ones.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/generated_set.h"
#include "data/pathfinder_paddles.h"

namespace cosformer::data {

struct PathfinderOptions {
  int64_t train = 160'000, valid = 20'000, test = 20'000;
  int contour_length = 14;  // paddles of a long path: 6 is easy, 9 intermediate, 14 hard
  uint64_t seed = 1;
  int threads = 0;  // 0: all
};

struct PlacedPaddle {
  PathfinderPoint place;  // the tail of a path's first paddle, the head of the others
  double angle = 0;       // from tail to head, of (sin, cos) = (y, x)
};
using PathfinderPath = std::vector<PlacedPaddle>;

// An image with what it was made from.
struct PathfinderScene {
  bool joined = false;  // the label: whether a path leads from one marker to the other
  std::array<PathfinderPoint, 2> markers;
  std::array<PathfinderPath, 2> paths;
  std::vector<PathfinderPath> distractors;
  std::array<uint8_t, kPathfinderSize * kPathfinderSize> pixels{};
};

// Image number `index` of the seed. Of images 2 i and 2 i + 1 one is joined and one is not.
PathfinderScene MakePathfinder(const PathfinderOptions& options, int64_t index);

// Writes train.bin, valid.bin and test.bin: for each image a byte that is 1 if the markers are
// joined and 0 if not, and 1,024 pixels row by row. Throws Error for options that can't be followed
// and for files that can't be written; the directory then has the files that it had before.
void GeneratePathfinder(const std::string& directory, const PathfinderOptions& options,
                        const GenerationProgress& progress);

}  // namespace cosformer::data
