#include <gtest/gtest.h>

#include "data/tasks/reading.h"

namespace cosformer::data {
namespace {

using Examples = std::vector<Example>;
using Names = std::vector<std::string>;
using TranslateTest = ReadingTest;

TEST_F(TranslateTest, ATableHoldsSourceAndTarget) {
  Write("train.tsv", "ein Haus\ta house\r\nzwei\ttwo\r\n");
  EXPECT_EQ(ReadAll("translate", Here()), (Examples{{"ein Haus", "a house", "", "train.tsv", 1},
                                                    {"zwei", "two", "", "train.tsv", 2}}));
  EXPECT_TRUE(FindTask("translate").Pairs(Here()));
}

TEST_F(TranslateTest, TwoFilesAreReadLineByLine) {
  Put("a/train.tgt", "a house\ntwo");
  Put("a/train.src", "ein Haus\nzwei\n");
  Put("a/train.zz", "not looked at");
  EXPECT_EQ(
      ReadAll("translate", {.data = Path("a")}),
      (Examples{{"ein Haus", "a house", "", "train.src", 1}, {"zwei", "two", "", "train.src", 2}}));
  Put("b/train.en", "a house\n");
  Put("b/train.de", "ein Haus\n");
  Put("b/dev.de", "eins\n");
  Put("b/dev.en", "one\n");
  Put("b/trainer.de", "not looked at\n");
  EXPECT_EQ(ReadAll("translate", {.data = Path("b")}),
            (Examples{{"ein Haus", "a house", "", "train.de", 1}}));
  EXPECT_EQ(FilesOf("translate", {.data = Path("b")}, Split::kValid),
            (Names{"b/dev.de", "b/dev.en"}));
  EXPECT_EQ(FilesOf("translate", {.data = Path("b")}, Split::kTest), Names{});
}

TEST_F(TranslateTest, BadPairsOfFilesAreRefusedWithASentence) {
  const struct {
    const char *source, *target, *sentence;
  } cases[] = {
      {"a\nb\nc\nd\n", "1\n2\n",
       "\"FOLDER/d/train.de\" has 4 lines and \"FOLDER/d/train.en\" has 2; line by line, one must "
       "be the other's translation"},
      {"a\n", "1\n2\n3",
       "\"FOLDER/d/train.de\" has 1 lines and \"FOLDER/d/train.en\" has 3; line by line, one must "
       "be the other's translation"},
      {"", "1\n",
       "\"FOLDER/d/train.de\" has 0 lines and \"FOLDER/d/train.en\" has 1; line by line, one must "
       "be the other's translation"},
      {"", "", "\"FOLDER/d/train.de\" and \"FOLDER/d/train.en\" are empty"},
      {"a\n\n", "1\n2\n", "\"FOLDER/d/train.de\", line 2: the source is empty; remove the pair"},
      {"a\nb\n", "1\n\r\n", "\"FOLDER/d/train.de\", line 2: the target is empty; remove the pair"},
      {"a\n", "caf\xE9\n",
       "\"FOLDER/d/train.en\", line 1, column 4 (offset 3): byte 0xE9 is not UTF-8; convert the "
       "file, as by iconv -f LATIN1 -t UTF-8, or train a model with --tokenizer bytes"},
      {"caf\xE9\n", "a\n",
       "\"FOLDER/d/train.de\", line 1, column 4 (offset 3): byte 0xE9 is not UTF-8; convert the "
       "file, as by iconv -f LATIN1 -t UTF-8, or train a model with --tokenizer bytes"},
  };
  for (const auto& bad : cases) {
    Put("d/train.de", bad.source);
    Put("d/train.en", bad.target);
    EXPECT_EQ(Sentence("translate", {.data = Path("d")}), bad.sentence);
  }
  EXPECT_EQ(ReadAll("translate", {.data = Path("d"), .any_bytes = true}).size(), 1u);
  Put("d/train.fr", "x\n");
  EXPECT_EQ(Sentence("translate", {.data = Path("d")}),
            "which of these are the source and the target of the train split: FOLDER/d/train.de, "
            "FOLDER/d/train.en, FOLDER/d/train.fr? Expected two files of one name with an ending "
            "for each language, or train.src and train.tgt, or train.tsv");
}

TEST_F(TranslateTest, BadTablesAreRefusedWithASentence) {
  const struct {
    const char *contents, *sentence;
  } cases[] = {
      {"a\tb\tc\n", "\"FOLDER/a.tsv\", line 1: 3 columns, expected 2: source and target"},
      {"a\n", "\"FOLDER/a.tsv\", line 1: 1 columns, expected 2: source and target"},
      {"a\tb\n\tc\n", "\"FOLDER/a.tsv\", line 2: the source is empty; remove the pair"},
      {"a\tb\nc\t\n", "\"FOLDER/a.tsv\", line 2: the target is empty; remove the pair"},
      {"", "\"FOLDER/a.tsv\" has no rows: it is empty"},
  };
  for (const auto& bad : cases) {
    EXPECT_EQ(Sentence("translate", {.data = Write("a.tsv", bad.contents)}), bad.sentence);
  }
}

}  // namespace
}  // namespace cosformer::data
