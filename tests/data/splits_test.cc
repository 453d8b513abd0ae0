#include "data/splits.h"

#include <gtest/gtest.h>

#include "data/tasks/reading.h"

namespace cosformer::data {
namespace {

using testing::MessageOf;
using Names = std::vector<std::string>;

class SplitsTest : public ReadingTest {
 protected:
  SplitsTest() {
    task_.name = "toy";
    task_.layouts = "toys";
    layout_.in_data = [](const std::string& directory, Split split) {
      auto file = FindSplitFile(directory, split, "", ".toy");
      return file ? Names{*file} : Names{};
    };
  }

  Names Find(const Source& source, Split split) const {
    return SplitFiles(task_, source, split, layout_);
  }

  TaskDescription task_;
  Layout layout_;
};

TEST_F(SplitsTest, ADirectoryHasWhatItHas) {
  const std::string train = Put("d/train.toy", ""), dev = Put("d/dev.toy", "");
  const Source source{.data = Path("d")};
  EXPECT_EQ(Find(source, Split::kTrain), Names{train});
  EXPECT_EQ(Find(source, Split::kValid), Names{dev});
  EXPECT_EQ(Find(source, Split::kTest), Names{});
}

TEST_F(SplitsTest, AnySynonymOfValidWillDo) {
  for (const char* name : {"valid", "validation", "val", "dev", "eval"}) {
    const std::string folder = std::string("for_") + name;
    const std::string file = Put(folder + "/" + name + ".toy", "");
    EXPECT_EQ(Find({.data = Path(folder)}, Split::kValid), Names{file});
  }
}

TEST_F(SplitsTest, ASplitGivenByNameGoesBeforeTheDirectory) {
  const std::string train = Put("d/train.toy", ""), other = Put("other", "");
  Put("d/test.toy", "");
  const Source source{.data = Path("d"), .test = other};
  EXPECT_EQ(Find(source, Split::kTrain), Names{train});
  EXPECT_EQ(Find(source, Split::kTest), Names{other});
  const Source alone{.valid = other};
  EXPECT_EQ(Find(alone, Split::kTrain), Names{});
  EXPECT_EQ(Find(alone, Split::kValid), Names{other});
}

TEST_F(SplitsTest, OneFileIsForTraining) {
  const std::string file = Put("file", "");
  EXPECT_EQ(Find({.data = file}, Split::kTrain), Names{file});
  EXPECT_EQ(Find({.data = file}, Split::kValid), Names{});
  EXPECT_EQ(Find({.data = file, .valid = file}, Split::kValid), Names{file});
}

TEST_F(SplitsTest, ADirectoryGivenForASplitIsTheTasksBusiness) {
  Put("d/x", "");
  EXPECT_EQ(MessageOf([&] { Find({.train = Path("d")}, Split::kTrain); }),
            "--train \"" + Path("d") +
                "\" is a directory, expected one file; a directory with all splits is --data");
  layout_.in_split = [](const std::string& directory) { return Names{directory + "/x"}; };
  EXPECT_EQ(Find({.train = Path("d")}, Split::kTrain), Names{Path("d/x")});
  layout_.in_split = [](const std::string&) { return Names{}; };
  EXPECT_EQ(MessageOf([&] { Find({.train = Path("d")}, Split::kTrain); }),
            "--train \"" + Path("d") + "\" holds nothing that task toy reads; it reads toys");
}

TEST_F(SplitsTest, SourcesThatAreNoneSayWhatTheTaskReads) {
  const std::string file = Put("file", ""), none = Path("none");
  const std::string too_long = Path(std::string(300, 'x'));
  Put("empty/x", "");
  Put("both/dev.toy", "");
  Put("both/val.toy", "");
  const struct {
    Source source;
    std::string sentence;
  } cases[] = {
      {{}, "task toy has nothing to read; give --data: toys"},
      {{.data = none}, "--data \"" + none + "\" does not exist; task toy reads toys"},
      {{.data = too_long},
       "--data \"" + too_long + "\" cannot be reached: File name too long; task toy reads toys"},
      {{.train = none}, "--train \"" + none + "\" does not exist; task toy reads toys"},
      {{.data = file, .valid = none},
       "--valid \"" + none + "\" does not exist; task toy reads toys"},
      {{.data = file, .test = none}, "--test \"" + none + "\" does not exist; task toy reads toys"},
      {{.data = Path("empty")},
       "--data \"" + Path("empty") + "\" holds nothing that task toy reads; it reads toys"},
      {{.data = file, .train = file},
       "--data \"" + file + "\" is one file, which is for training, and so is --train \"" + file +
           "\"; give one of them"},
      {{.data = Path("both")},
       "both \"" + Path("both/val.toy") + "\" and \"" + Path("both/dev.toy") +
           "\" could be the valid split; name one with --valid"},
  };
  for (const auto& bad : cases) {
    EXPECT_EQ(MessageOf([&] { Find(bad.source, Split::kTrain); }), bad.sentence);
  }
}

}  // namespace
}  // namespace cosformer::data
