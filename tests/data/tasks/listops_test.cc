#include <gtest/gtest.h>

#include "data/tasks/reading.h"

namespace cosformer::data {
namespace {

using ListOpsTest = ReadingTest;

TEST_F(ListOpsTest, ParenthesesAndSpareBlanksAreDropped) {
  Write("basic_train.tsv",
        "Source\tTarget\r\n( ( ( [MAX 2 ) 9 ) ] )\t9\r\n([SM 1  ([MED 3 4 ]) ] \t4\r\n");
  EXPECT_EQ(ReadAll("listops", Here()),
            (std::vector<Example>{{"[MAX 2 9 ]", "", "9", "basic_train.tsv", 2},
                                  {"[SM 1 [MED 3 4 ] ]", "", "4", "basic_train.tsv", 3}}));
}

TEST_F(ListOpsTest, TheArenasFilesAreTheSplits) {
  for (const char* name : {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"}) {
    Write(name, "Source\tTarget\n[MIN 1 2 ]\t1\n");
  }
  EXPECT_EQ(ReadAll("listops", Here(), Split::kTrain).at(0).file, "basic_train.tsv");
  EXPECT_EQ(ReadAll("listops", Here(), Split::kValid).at(0).file, "basic_val.tsv");
  EXPECT_EQ(ReadAll("listops", Here(), Split::kTest).at(0).file, "basic_test.tsv");
  EXPECT_FALSE(FindTask("listops").Pairs(Here()));
}

TEST_F(ListOpsTest, TheTokenizerKnowsEveryWord) {
  const auto tokenizer = FindTask("listops").FixedTokenizer();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->kind(), TokenizerKind::kWords);
  const auto tokens = tokenizer->Encode("[MIN [MAX [MED [SM ] 0 1 2 3 4 5 6 7 8 9");
  EXPECT_EQ(tokens.size(), 15u);
  for (const int32_t token : tokens) EXPECT_NE(token, tokenizer->special().unknown);
}

TEST_F(ListOpsTest, OtherTablesAreRefusedWithASentence) {
  const struct {
    const char *contents, *sentence;
  } cases[] = {
      {"sentence\tlabel\n[MIN 1 ]\t1\n",
       "\"FOLDER/a.tsv\" does not begin with a header that has the columns Source and Target, as "
       "ListOps tables do"},
      {"Source\tLabel\n[MIN 1 ]\t1\n",
       "\"FOLDER/a.tsv\" does not begin with a header that has the columns Source and Target, as "
       "ListOps tables do"},
      {"Source\tTarget\n[MIN 1 2 ]\t1\n[AVG 1 2 ]\t1\n",
       "\"FOLDER/a.tsv\", line 3: \"[AVG\" is no word of ListOps; those are [MIN [MAX [MED [SM ] 0 "
       "1 2 3 4 5 6 7 8 9"},
      {"Source\tTarget\n[MIN 1 2 ]\t10\n",
       "\"FOLDER/a.tsv\", line 2: the value is \"10\", expected 0 to 9"},
      {"Source\tTarget\n[MIN 1 2 ]\tx\n",
       "\"FOLDER/a.tsv\", line 2: the value is \"x\", expected 0 to 9"},
      {"Source\tTarget\n( )\t1\n", "\"FOLDER/a.tsv\", line 2: the expression is empty"},
      {"Source\tTarget\n", "\"FOLDER/a.tsv\" has no rows, only a header"},
      {"", "\"FOLDER/a.tsv\" has no rows: it is empty"},
  };
  for (const auto& bad : cases) {
    EXPECT_EQ(Sentence("listops", {.data = Write("a.tsv", bad.contents)}), bad.sentence);
  }
}

}  // namespace
}  // namespace cosformer::data
