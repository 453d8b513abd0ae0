// The label is what the paths say, and images are alike those that were published.
#include "data/pathfinder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "formats/folder.h"
#include "report/contains.h"

namespace cosformer::data {
namespace {

using cosformer::testing::Contains;
using cosformer::testing::MessageOf;

PathfinderOptions Length(int contour_length) {
  PathfinderOptions options;
  options.contour_length = contour_length;
  return options;
}

struct Segment {
  double y0, x0, y1, x1;
};
// The visible middle of a paddle, a little shorter than it is: rounding moves its ends.
Segment Middle(const PathfinderPath& path, size_t i) {
  const double sign = i == 0 ? 1 : -1;
  const double dy = sign * std::sin(path[i].angle), dx = sign * std::cos(path[i].angle);
  const auto [y, x] = path[i].place;
  return {y + 0.3 * dy, x + 0.3 * dx, y + 1.7 * dy, x + 1.7 * dx};
}
bool Cross(const Segment& a, const Segment& b) {
  const auto side = [](const Segment& s, double y, double x) {
    return (s.y1 - s.y0) * (x - s.x0) - (s.x1 - s.x0) * (y - s.y0);
  };
  return side(a, b.y0, b.x0) * side(a, b.y1, b.x1) < 0 &&
         side(b, a.y0, a.x0) * side(b, a.y1, a.x1) < 0;
}

TEST(Pathfinder, MarkersAreAtTheEndsOfOnePathIfAndOnlyIfJoined) {
  for (const int length : {6, 9, 14}) {
    for (int64_t index = 0; index < 60; ++index) {
      const PathfinderScene scene = MakePathfinder(Length(length), index);
      int joining = 0, beginning = 0, ending = 0;
      for (const PathfinderPath& path : scene.paths) {
        ASSERT_EQ(path.size(), static_cast<size_t>(length));
        const bool begins = path.front().place == scene.markers[0];
        const bool ends = path.back().place == scene.markers[1];
        beginning += begins;
        ending += ends;
        joining += begins && ends;
      }
      EXPECT_EQ(beginning, 1);
      EXPECT_EQ(ending, 1);
      EXPECT_EQ(joining, scene.joined ? 1 : 0);
    }
  }
}

TEST(Pathfinder, OfEveryTwoImagesOneIsJoined) {
  int first = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const bool joined = MakePathfinder(Length(6), 2 * i).joined;
    EXPECT_NE(joined, MakePathfinder(Length(6), 2 * i + 1).joined);
    first += joined;
  }
  EXPECT_NEAR(first, 25, 18);
}

TEST(Pathfinder, EitherPathIsMarked) {
  std::set<std::pair<bool, bool>> seen;
  for (int64_t i = 0; i < 40; ++i) {
    const PathfinderScene scene = MakePathfinder(Length(6), i);
    seen.insert({scene.joined, scene.paths[0].front().place == scene.markers[0]});
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(Pathfinder, ThePathsBeginInTheMiddleAtTheirDistance) {
  for (int64_t i = 0; i < 100; ++i) {
    const PathfinderScene scene = MakePathfinder(Length(6), i);
    const PathfinderPoint a = scene.paths[0].front().place, b = scene.paths[1].front().place;
    EXPECT_TRUE(a.y >= 14 && a.y <= 16 && a.x >= 14 && a.x <= 16) << a.y << " " << a.x;
    EXPECT_NEAR(std::hypot(a.y - b.y, a.x - b.x), 7, 0.71);
  }
}

TEST(Pathfinder, APathTurnsByLessThanARightAngle) {
  for (int64_t i = 0; i < 50; ++i) {
    for (const PathfinderPath& path : MakePathfinder(Length(14), i).paths) {
      for (size_t p = 1; p < path.size(); ++p) {
        EXPECT_GT(std::cos(path[p].angle - path[p - 1].angle), 0);
        const auto [y0, x0] = path[p - 1].place;
        const auto [y1, x1] = path[p].place;
        // From head to head: a step of 4 and turns of a radius of 3, or less.
        EXPECT_LE(std::hypot(y1 - y0, x1 - x0), 4 + 3 + 1.5);
      }
    }
  }
}

// Neighbours on a path aside, and the last paddle of the first path, which has no fence.
TEST(Pathfinder, NoPaddleCrossesAnother) {
  int64_t distractors = 0;
  for (int64_t index = 0; index < 150; ++index) {
    const PathfinderScene scene = MakePathfinder(Length(14), index);
    std::vector<PathfinderPath> paths(scene.paths.begin(), scene.paths.end());
    paths.insert(paths.end(), scene.distractors.begin(), scene.distractors.end());
    distractors += static_cast<int64_t>(scene.distractors.size());
    for (size_t a = 0; a < paths.size(); ++a) {
      for (size_t b = a; b < paths.size(); ++b) {
        for (size_t i = 0; i < paths[a].size(); ++i) {
          for (size_t j = a == b ? i + 2 : 0; j < paths[b].size(); ++j) {
            // The long paths grow in turns: the one does not see the other's last paddle yet.
            const bool unseen =
                a == 0 && (b == 1 ? i + 1 >= j && j + 1 >= i : i + 1 == paths[0].size());
            // What begins is looked for by its footprint alone.
            if (unseen || j == 0) continue;
            EXPECT_FALSE(Cross(Middle(paths[a], i), Middle(paths[b], j)))
                << "image " << index << ", paddle " << i << " of path " << a << " and " << j
                << " of " << b;
          }
        }
      }
    }
  }
  EXPECT_GT(distractors, 0);
}

// A scene placed once more, paddle by paddle, by the rules for what is to stay free.
class Replay {
 public:
  Replay() {
    for (int i = 0; i < kPathfinderSize; ++i) {
      const int last = kPathfinderSize - 1;
      fences_[{0, i}] = fences_[{last, i}] = fences_[{i, 0}] = fences_[{i, last}] = 1;
    }
  }

  // A paddle after the first has room, and the one before it is fenced then.
  void Extend(const PathfinderPath& path, size_t i) {
    const Paddle& paddle = PaddleOf(path, i);
    ForPatch(path[i].place,
             [&](PathfinderPoint p, size_t at) { EXPECT_LT(fences_[p] + paddle.fence[at], 1.8); });
    Fence(path, i - 1);
  }
  void Fence(const PathfinderPath& path, size_t i) {
    const Paddle& paddle = PaddleOf(path, i);
    ForPatch(path[i].place, [&](PathfinderPoint p, size_t at) {
      fences_[p] = std::max(fences_[p], static_cast<float>(paddle.fence[at]));
    });
  }
  void ExpectFreeFootprint(const PlacedPaddle& first) {
    const PaddleDirection& direction = Find(AllPaddleDirections().first, first.angle);
    EXPECT_TRUE(direction.begins);
    for (const PathfinderPoint offset : direction.footprint) {
      const PathfinderPoint p = first.place + offset;
      if (p.Inside()) {
        EXPECT_LE(fences_[p], 0.3f);
      }
    }
  }

 private:
  static const PaddleDirection& Find(const std::vector<PaddleDirection>& all, double angle) {
    return *std::ranges::find(all, angle, &PaddleDirection::angle);
  }
  static const Paddle& PaddleOf(const PathfinderPath& path, size_t i) {
    return i == 0 ? Find(AllPaddleDirections().first, path[i].angle).ahead
                  : Find(AllPaddleDirections().next, path[i].angle).behind;
  }

  PathfinderGrid fences_;
};

TEST(Pathfinder, EveryPaddleHadRoomWhenItWasPlaced) {
  for (int64_t index = 0; index < 100; ++index) {
    const PathfinderScene scene = MakePathfinder(Length(14), index);
    Replay replay;
    for (size_t i = 1; i < 14; ++i) {
      for (const PathfinderPath& path : scene.paths) replay.Extend(path, i);
    }
    replay.Fence(scene.paths[1], 13);
    for (const PathfinderPath& path : scene.distractors) {
      replay.ExpectFreeFootprint(path[0]);
      for (size_t i = 1; i < path.size(); ++i) replay.Extend(path, i);
      replay.Fence(path, path.size() - 1);
    }
  }
}

TEST(Pathfinder, PathsStayOffTheEdge) {
  for (int64_t i = 0; i < 50; ++i) {
    for (const PathfinderPath& path : MakePathfinder(Length(14), i).paths) {
      for (const auto& [place, angle] : path) {
        EXPECT_TRUE(place.y > 0 && place.y < 31 && place.x > 0 && place.x < 31);
      }
    }
  }
}

TEST(Pathfinder, DistractorsAreAThirdAsLong) {
  for (const auto& [length, most] : {std::pair{6, 10}, {9, 6}, {14, 5}}) {
    size_t found = 0;
    for (int64_t i = 0; i < 50; ++i) {
      const PathfinderScene scene = MakePathfinder(Length(length), i);
      EXPECT_LE(scene.distractors.size(), static_cast<size_t>(most));
      for (const auto& path : scene.distractors) {
        EXPECT_EQ(path.size(), static_cast<size_t>(length / 3));
      }
      found += scene.distractors.size();
    }
    EXPECT_GT(found, 0u);
  }
}

// Measured on published images: easy 600, intermediate 300, hard 400. Bounds are some four standard
// errors of the mean of the published and of these together.
TEST(Pathfinder, ImagesAreAlikeThePublishedOnes) {
  struct Published {
    int length;
    double mean, lit, bright;  // a pixel's value, % above 0, pixels above 100
    double mean_bound, lit_bound, bright_bound;
  };
  constexpr int kImages = 300;
  for (const Published& published : {Published{6, 13.00, 22.84, 66.2, 0.5, 0.9, 2.5},
                                     Published{9, 15.31, 26.31, 78.6, 0.6, 1.1, 3.4},
                                     Published{14, 20.11, 33.84, 104.4, 0.6, 1.2, 3.2}}) {
    double sum = 0, lit = 0, bright = 0;
    for (int64_t i = 0; i < kImages; ++i) {
      const PathfinderScene scene = MakePathfinder(Length(published.length), i);
      EXPECT_EQ(*std::max_element(scene.pixels.begin(), scene.pixels.end()), 255);
      for (const uint8_t pixel : scene.pixels) {
        sum += pixel;
        lit += pixel > 0;
        bright += pixel > 100;
      }
    }
    EXPECT_NEAR(sum / kImages / 1024, published.mean, published.mean_bound);
    EXPECT_NEAR(100 * lit / kImages / 1024, published.lit, published.lit_bound);
    EXPECT_NEAR(bright / kImages, published.bright, published.bright_bound);
  }
}

// Values that paddles have in images whose brightest pixel is a marker's, and one they never have.
TEST(Pathfinder, PixelsHaveTheValuesOfThePublishedOnes) {
  std::vector<int> counts(256);
  for (int64_t i = 0; i < 100; ++i) {
    for (const uint8_t pixel : MakePathfinder(Length(14), i).pixels) ++counts[pixel];
  }
  for (const size_t value : {31, 121, 133, 139, 144, 151, 157, 160, 174}) {
    EXPECT_GT(counts[value], 40) << value;
  }
  EXPECT_EQ(counts[140], 0);
}

class PathfinderFilesTest : public cosformer::testing::FolderTest {
 protected:
  static PathfinderOptions Small() {
    PathfinderOptions options = Length(6);
    options.train = 20;
    options.valid = 4;
    options.test = 6;
    return options;
  }
};

TEST_F(PathfinderFilesTest, ARecordIsALabelAndTheImage) {
  const PathfinderOptions options = Small();
  GeneratePathfinder(folder_.string(), options, {});
  EXPECT_EQ(FilesInFolder(), 3);
  const std::string all =
      Read(Path("train.bin")) + Read(Path("valid.bin")) + Read(Path("test.bin"));
  ASSERT_EQ(Read(Path("train.bin")).size(), 20u * 1025);
  ASSERT_EQ(Read(Path("valid.bin")).size(), 4u * 1025);
  ASSERT_EQ(all.size(), 30u * 1025);
  for (size_t i = 0; i < 30; ++i) {
    const PathfinderScene scene = MakePathfinder(options, static_cast<int64_t>(i));
    EXPECT_EQ(all[i * 1025], scene.joined ? 1 : 0);
    EXPECT_EQ(all.substr(i * 1025 + 1, 1024),
              std::string(scene.pixels.begin(), scene.pixels.end()));
  }
}

TEST_F(PathfinderFilesTest, ASeedMakesOneSetWhateverTheNumberOfThreads) {
  PathfinderOptions options = Small();
  options.threads = 1;
  GeneratePathfinder(Path("one"), options, {});
  options.threads = 3;
  GeneratePathfinder(Path("three"), options, {});
  EXPECT_EQ(Read(Path("one/train.bin")), Read(Path("three/train.bin")));
  EXPECT_EQ(Read(Path("one/test.bin")), Read(Path("three/test.bin")));
  options.seed = 2;
  GeneratePathfinder(Path("other"), options, {});
  EXPECT_NE(Read(Path("one/train.bin")), Read(Path("other/train.bin")));
}

TEST_F(PathfinderFilesTest, PathsThatFindNoRoomAreRefused) {
  for (const int length : {2, 21}) {
    PathfinderOptions options = Small();
    options.contour_length = length;
    EXPECT_TRUE(Contains(MessageOf([&] { GeneratePathfinder(Path("new"), options, {}); }),
                         "the paths have " + std::to_string(length)));
  }
  EXPECT_EQ(FilesInFolder(), 0);
}

}  // namespace
}  // namespace cosformer::data
