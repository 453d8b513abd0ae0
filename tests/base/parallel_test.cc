// Teams of threads: how many work is worth, and that every piece is done once.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace cosformer {
namespace {

constexpr Work kLong = {.flops = 1e12};

TEST(TeamTest, HasOneThreadForWorkThatIsOverSoonerThanAnotherWakes) {
  EXPECT_EQ(Team(4, 100, {.flops = 1000}).size(), 1);
  EXPECT_EQ(Team(4, 100, {.bytes = 1000}).size(), 1);
  EXPECT_EQ(Team(4, 100, {}).size(), 1);
}

TEST(TeamTest, HasNoMoreThreadsThanPiecesOrThanItMayHave) {
  EXPECT_EQ(Team(4, 100, kLong).size(), 4);
  EXPECT_EQ(Team(4, 3, kLong).size(), 3);
  EXPECT_EQ(Team(4, 0, kLong).size(), 1);
  EXPECT_EQ(Team(1, 100, kLong).size(), 1);
}

TEST(TeamTest, GrowsWithTheWork) {
  int last = 1;
  for (double flops = 1e5; flops < 1e8; flops *= 1.5) {
    const int size = Team(64, 64, {.flops = flops}).size();
    EXPECT_GE(size, last);
    last = size;
  }
  EXPECT_EQ(last, 64);
}

TEST(TeamTest, DoesEveryPieceOnceAndGivesThreadsNumbersOfTheirOwn) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(n)), evenly(static_cast<size_t>(n));
      std::vector<std::atomic<int>> inside(8);
      const Team team(threads, 1000, kLong);
      team.Run(n, [&](int64_t i, int thread) {
        ASSERT_LT(thread, team.size());
        EXPECT_EQ(inside[static_cast<size_t>(thread)].fetch_add(1), 0);
        done[static_cast<size_t>(i)].fetch_add(1);
        inside[static_cast<size_t>(thread)].fetch_sub(1);
      });
      team.RunEvenly(n, [&](int64_t i, int thread) {
        ASSERT_LT(thread, team.size());
        evenly[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const auto& count : done) EXPECT_EQ(count.load(), 1);
      for (const auto& count : evenly) EXPECT_EQ(count.load(), 1);
    }
  }
}

// OpenMP starts threads anew for every region inside of another, also where that has one thread.
TEST(TeamTest, OfOneThreadIsNoRegionOfOpenMp) {
  Team(1, 3, kLong).Run(3, [](int64_t, int) {
    EXPECT_EQ(omp_get_level(), 0);
    EXPECT_EQ(Team(2, 2, kLong).size(), 2);
  });
  ParallelFor(1, 2, [](int64_t) { EXPECT_EQ(omp_get_level(), 0); });
}

TEST(TeamTest, InsideAnotherHasOneThread) {
  Team(2, 2, kLong).Run(2, [](int64_t, int) { EXPECT_EQ(Team(2, 2, kLong).size(), 1); });
}

TEST(TeamTest, ThrowsWhatAPieceThrewAndBeginsNoMore) {
  for (const int threads : {1, 2}) {
    constexpr int64_t kPieces = 5'000'000;
    std::atomic<int64_t> done = 0;
    const auto run = [&] {
      Team(threads, kPieces, kLong).Run(kPieces, [&](int64_t i, int) {
        if (i == 9) throw std::runtime_error("nine");
        done.fetch_add(1);
      });
    };
    EXPECT_THROW(run(), std::runtime_error);
    // More than another thread does while the one that throws is off its core.
    EXPECT_LT(done.load(), kPieces - 1);
  }
}

}  // namespace
}  // namespace cosformer
