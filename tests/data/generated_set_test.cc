// Sets are whole or not there, in order, and without repetition.
#include "data/generated_set.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/folder.h"
#include "report/contains.h"
#include "report/full_disk.h"

namespace cosformer::data {
namespace {

using cosformer::testing::Contains;
using cosformer::testing::MessageOf;

class GeneratedSetTest : public cosformer::testing::FolderTest {
 protected:
  GeneratedSet Set(int64_t first, int64_t second, int threads = 2) const {
    return {.directory = folder_.string(),
            .parts = {{"a", first}, {"b", second}},
            .header = "head\n",
            .threads = threads};
  }
};

std::string Line(int64_t index) { return std::to_string(index) + "\n"; }

TEST_F(GeneratedSetTest, ExamplesAreInOrderWhateverTheNumberOfThreads) {
  std::string first = "head\n", second = "head\n";
  for (int64_t i = 0; i < 2500; ++i) first += Line(i);
  for (int64_t i = 2500; i < 2503; ++i) second += Line(i);
  for (const int threads : {0, 1, 2, 5}) {
    WriteGeneratedSet(Set(2500, 3, threads), Line, {});
    EXPECT_EQ(Read(Path("a")), first);
    EXPECT_EQ(Read(Path("b")), second);
    EXPECT_EQ(FilesInFolder(), 2);
  }
}

TEST_F(GeneratedSetTest, NoExampleComesTwice) {
  WriteGeneratedSet(Set(3, 2), [](int64_t index) { return Line(index / 3); }, {});
  EXPECT_EQ(Read(Path("a")), "head\n0\n1\n2\n");
  EXPECT_EQ(Read(Path("b")), "head\n3\n4\n");
}

TEST_F(GeneratedSetTest, WhenNothingNewComesItEndsWithASentence) {
  const std::string message = MessageOf(
      [&] { WriteGeneratedSet(Set(5, 5), [](int64_t index) { return Line(index % 7); }, {}); });
  EXPECT_TRUE(Contains(message, "after 7 different examples"));
  EXPECT_EQ(FilesInFolder(), 0);
}

TEST_F(GeneratedSetTest, ProgressEndsAtTheTotal) {
  int64_t last = 0, calls = 0;
  WriteGeneratedSet(Set(2000, 500), Line, [&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, 2500);
    last = done;
    ++calls;
  });
  EXPECT_EQ(last, 2500);
  EXPECT_GT(calls, 2);
}

TEST_F(GeneratedSetTest, WhatIsThrownOnTheWayLeavesTheOldFiles) {
  Write("a", "old");
  const auto stop = [](int64_t, int64_t) { throw Error("enough"); };
  EXPECT_EQ(MessageOf([&] { WriteGeneratedSet(Set(10, 10), Line, stop); }), "enough");
  const auto fail = [](int64_t index) {
    if (index == 15) throw Error("no fifteen");
    return Line(index);
  };
  EXPECT_EQ(MessageOf([&] { WriteGeneratedSet(Set(10, 10), fail, {}); }), "no fifteen");
  EXPECT_EQ(Read(Path("a")), "old");
  EXPECT_EQ(FilesInFolder(), 1);
}

// The size limit of the process stands for a full disk.
TEST_F(GeneratedSetTest, AFullDiskIsNamedAndLeavesTheOldFiles) {
  // Before the disk is full: an OpenMP runtime may write a file of its own when it starts.
  WriteGeneratedSet(Set(1, 1, 1), Line, {});
  std::filesystem::remove(Path("b"));
  Write("a", "old");
  std::string complaint;
  {
    const cosformer::testing::FullDisk disk(100);
    complaint = MessageOf([this] { WriteGeneratedSet(Set(5, 50, 1), Line, {}); });
  }
  EXPECT_TRUE(Contains(complaint, "cannot write \"" + Path("b") + "\""));
  EXPECT_EQ(Read(Path("a")), "old");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(GeneratedSetTest, TheDirectoryIsMadeOrNamed) {
  GeneratedSet set = Set(1, 1);
  set.directory = Path("new/folder");
  WriteGeneratedSet(set, Line, {});
  EXPECT_EQ(Read(Path("new/folder/a")), "head\n0\n");
  Write("file", "");
  set.directory = Path("file/folder");
  EXPECT_TRUE(Contains(MessageOf([&] { WriteGeneratedSet(set, Line, {}); }), set.directory));
}

TEST_F(GeneratedSetTest, ImpossibleNumbersAreRefusedBeforeAnythingIsMade) {
  GeneratedSet set = Set(10, 0);
  set.directory = Path("new");
  EXPECT_TRUE(Contains(MessageOf([&] { WriteGeneratedSet(set, Line, {}); }), "0 examples for"));
  set = Set(1, 1, -1);
  set.directory = Path("new");
  EXPECT_TRUE(Contains(MessageOf([&] { WriteGeneratedSet(set, Line, {}); }), "-1 threads"));
  EXPECT_EQ(FilesInFolder(), 0);
}

}  // namespace
}  // namespace cosformer::data
