// The directory of a run: which files count, which go, who may write.
#include "runs/run_directory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "contains.h"
#include "folder.h"

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::MessageOf;

class RunDirectoryTest : public testing::FolderTest {
 protected:
  RunDirectoryTest() : run_(Path("runs/one")) { CreateRunDirectory(run_); }

  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    for (const Checkpoint& checkpoint : Checkpoints(run_)) {
      EXPECT_EQ(checkpoint.path, CheckpointPath(run_, checkpoint.step));
      EXPECT_TRUE(fs::exists(checkpoint.path));
      steps.push_back(checkpoint.step);
    }
    return steps;
  }

  void Touch(const std::string& name) const { Write("runs/one/checkpoints/" + name, "x"); }

  std::string run_;
};

TEST_F(RunDirectoryTest, FilesHaveTheirPlaces) {
  EXPECT_EQ(RecipePath(run_), run_ + "/recipe.toml");
  EXPECT_EQ(MetricsPath(run_), run_ + "/metrics.jsonl");
  EXPECT_EQ(ModelPath(run_ + "/"), run_ + "/model");
  EXPECT_EQ(CheckpointPath(run_, 1000), run_ + "/checkpoints/step-00001000.safetensors");
}

TEST_F(RunDirectoryTest, MakingItTwiceIsFineAndWhereAFileIsItIsASentence) {
  CreateRunDirectory(run_);
  EXPECT_TRUE(fs::is_directory(run_ + "/checkpoints"));
  const std::string file = Write("file", "x");
  EXPECT_TRUE(Contains(MessageOf([&] { CreateRunDirectory(file); }), file));
  EXPECT_TRUE(Contains(MessageOf([&] { CreateRunDirectory(""); }), "give a path"));
}

TEST_F(RunDirectoryTest, CheckpointsComeByStepAndStrangersDoNotCount) {
  for (const int64_t step :
       std::vector<int64_t>{2000, 0, 123456789012, 1000, 99999999, 100000000}) {
    Write(fs::path(CheckpointPath("runs/one", step)).string(), "x");
  }
  for (const char* stranger :
       {"step-00003000.safetensors.123.partial", "step-3000.safetensors", "step-00003000.json",
        "step-0000300x.safetensors", "step-000000003000.safetensors", "step-.safetensors",
        "step--0003000.safetensors", "best-00003000.safetensors", "step-", ".safetensors",
        "step-99999999999999999999.safetensors", "step-00003000.safetensors~",
        "astep-00003000.safetensors", "step-+0003000.safetensors"}) {
    Touch(stranger);
  }
  fs::create_directory(CheckpointPath(run_, 5000));
  EXPECT_EQ(Steps(), (std::vector<int64_t>{0, 1000, 2000, 99999999, 100000000, 123456789012}));
}

TEST_F(RunDirectoryTest, ADirectoryThatIsNotThereHasNoCheckpoints) {
  EXPECT_TRUE(Checkpoints(Path("elsewhere")).empty());
  PruneCheckpoints(Path("elsewhere"), 1);
  Write("file", "x");
  EXPECT_TRUE(Contains(MessageOf([&] { Checkpoints(Path("file")); }), Path("file")));
}

TEST_F(RunDirectoryTest, PruningKeepsTheLatestAndWhatIsNotACheckpoint) {
  for (const int64_t step : {100, 20, 3, 4000}) Write(CheckpointPath("runs/one", step), "x");
  Touch("notes.txt");
  PruneCheckpoints(run_, 9);
  PruneCheckpoints(run_, 4);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{3, 20, 100, 4000}));
  PruneCheckpoints(run_, 2);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{100, 4000}));
  PruneCheckpoints(run_, 1);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{4000}));
  EXPECT_TRUE(fs::exists(Path("runs/one/checkpoints/notes.txt")));
  for (const int64_t bad : {0, -1}) {
    EXPECT_TRUE(Contains(MessageOf([&] { PruneCheckpoints(run_, bad); }), "cannot keep"));
  }
  EXPECT_EQ(Steps().size(), 1u);
}

// In another process, whether it gets the lock.
bool AnotherGetsIt(const std::string& run) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(MessageOf([&run] { RunLock lock(run); }).empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status) == 0;
}

TEST_F(RunDirectoryTest, WhatAKilledProcessLeftHalfIsRemoved) {
  RemovePartialFiles(Path("elsewhere"));
  fs::create_directories(ModelPath(run_));
  for (const char* name : {"recipe.toml", "checkpoints/step-00000001.safetensors", "model/a"}) {
    Write(std::string("runs/one/") + name, "x");
    Write(std::string("runs/one/") + name + ".77-1.partial", "x");
  }
  RemovePartialFiles(run_);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(run_)) {
    files += entry.is_regular_file();
    EXPECT_NE(entry.path().extension(), ".partial");
  }
  EXPECT_EQ(files, 3);
}

TEST_F(RunDirectoryTest, OnlyOneProcessTrainsInADirectory) {
  {
    RunLock lock(run_);
    EXPECT_FALSE(AnotherGetsIt(run_));
    EXPECT_TRUE(Contains(MessageOf([this] { RunLock second(run_); }),
                         "another process is training in \"" + run_ + "\""));
  }
  EXPECT_TRUE(AnotherGetsIt(run_));
  RunLock again(run_);
}

TEST_F(RunDirectoryTest, ALockThatCanNotBeMadeIsASentence) {
  EXPECT_TRUE(Contains(MessageOf([this] { RunLock lock(Path("nowhere")); }), "No such file"));
}

}  // namespace
}  // namespace cosformer
