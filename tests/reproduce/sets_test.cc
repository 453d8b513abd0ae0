#include "reproduce/sets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "contains.h"
#include "folder.h"

namespace cosformer::reproduce {
namespace {

using testing::Contains;

class SetsTest : public testing::FolderTest {
 protected:
  void Make(const std::string& path, const std::string& contents = "") const {
    std::filesystem::create_directories(std::filesystem::path(Path(path)).parent_path());
    Write(path, contents);
  }
};

TEST_F(SetsTest, ASetIsFoundUnderItsUsualNames) {
  Make("wikitext-2-raw/wiki.train.raw");
  EXPECT_EQ(FindSet("wikitext-2", Path("")).path, Path("wikitext-2-raw"));
  Make("glue_data/MRPC/train.tsv");
  EXPECT_EQ(FindSet("mrpc", Path("")).path, Path("glue_data/MRPC"));
  Make("aclImdb/train/pos/1.txt");
  const Set imdb = FindSet("imdb", Path(""));
  EXPECT_EQ(imdb.absent, "");
  EXPECT_EQ(imdb.options,
            (std::vector<std::pair<std::string, std::string>>{{"data", "{data}/aclImdb"}}));
}

TEST_F(SetsTest, ATableWithoutAHeaderIsToldByItsFirstLine) {
  Make("imdb/train.tsv", "0\t3\t17\tA bad film.\n");
  EXPECT_EQ(FindSet("imdb", Path("")).options,
            (std::vector<std::pair<std::string, std::string>>{
                {"data", "{data}/imdb"}, {"text-column", "4"}, {"label-column", "1"}}));
  Make("imdb/train.tsv", "label\trating\tid\ttext\n0\t3\t17\tA bad film.\n");
  EXPECT_EQ(FindSet("imdb", Path("")).options.size(), 1u);
}

TEST_F(SetsTest, MnliHasTwoValidationSetsOfWhichOneCounts) {
  Make("GLUE/MNLI/train.tsv");
  Make("GLUE/MNLI/dev_matched.tsv");
  EXPECT_EQ(FindSet("mnli", Path("")).options[1].second, "{data}/GLUE/MNLI/dev_matched.tsv");
}

TEST_F(SetsTest, AFolderWithoutTheFilesIsNotTheSet) {
  Make("pathfinder32/hard.bin");
  EXPECT_TRUE(Contains(FindSet("pathfinder", Path("")).absent, ", that holds train.bin"));
}

TEST_F(SetsTest, ASetThatIsNotThereIsASentenceWithWhatIsLookedFor) {
  const std::string with = FindSet("imdb", Path("")).absent;
  EXPECT_TRUE(Contains(with, "The set imdb is not there"));
  EXPECT_TRUE(Contains(with, "aclImdb, imdb or IMDB"));
  EXPECT_TRUE(Contains(with, "--data has no folder"));
  EXPECT_TRUE(Contains(FindSet("wikitext-2", "").absent, "give --data a directory"));
  EXPECT_FALSE(Contains(with, "GLUE"));
  // GLUE's are also looked for one folder further down.
  EXPECT_TRUE(
      Contains(FindSet("mnli", Path("")).absent,
               "no folder MNLI or mnli, itself or in GLUE, glue, glue_data or glue_small, that "
               "holds train.tsv"));
}

}  // namespace
}  // namespace cosformer::reproduce
