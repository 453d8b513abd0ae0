// Tables with one text or two, directories named like the classes; classify and text read the same.
#include <gtest/gtest.h>

#include "data/tasks/reading.h"

namespace cosformer::data {
namespace {

using Examples = std::vector<Example>;
using Names = std::vector<std::string>;
using ClassifyTest = ReadingTest;

TEST_F(ClassifyTest, GlueTablesAreReadAsTheyAre) {
  const struct {
    const char* name;
    const char* table;
    Example first;
    bool pairs;
  } cases[] = {
      {"SST-2",
       "sentence\tlabel\nit 's \" charming \t1\n",
       {"it 's \" charming ", "", "1", "train.tsv", 2},
       false},
      {"CoLA",
       "gj04\t0\t*\tThe rope stretch.\ngj04\t1\t\tA rope.\n",
       {"The rope stretch.", "", "0", "train.tsv", 1},
       false},
      {"MRPC",
       "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tHe \"\tShe\r\n",
       {"He \"", "She", "1", "train.tsv", 2},
       true},
      {"RTE",
       "index\tsentence1\tsentence2\tlabel\n0\tDana\tDied\tnot_entailment\n",
       {"Dana", "Died", "not_entailment", "train.tsv", 2},
       true},
      {"QNLI",
       "index\tquestion\tsentence\tlabel\n0\tWhat?\tThat.\tentailment\n",
       {"What?", "That.", "entailment", "train.tsv", 2},
       true},
      {"QQP",
       "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tWhy?\tWhy so?\t0\n",
       {"Why?", "Why so?", "0", "train.tsv", 2},
       true},
      {"MNLI",
       "index\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
       "0\t( x )\tOne\tTwo\tneutral\tcontradiction\n",
       {"One", "Two", "contradiction", "train.tsv", 2},
       true},
      {"other", "premise\thypothesis\ttarget\na\tb\tc\n", {"a", "b", "c", "train.tsv", 2}, true},
      {"reviews", "class\treview\nbad\tno\n", {"no", "", "bad", "train.tsv", 2}, false},
  };
  for (const auto& glue : cases) {
    Put(std::string(glue.name) + "/train.tsv", glue.table);
    const Source source{.data = Path(glue.name)};
    for (const char* task : {"classify", "text"}) {
      EXPECT_EQ(ReadAll(task, source).at(0), glue.first) << glue.name;
      EXPECT_EQ(FindTask(task).Pairs(source), glue.pairs) << glue.name;
    }
  }
}

TEST_F(ClassifyTest, SplitsGoByTheirUsualNames) {
  Put("a/train.tsv", "sentence\tlabel\nx\t1\n");
  Put("a/dev.tsv", "sentence\tlabel\ny\t0\n");
  Put("a/test.tsv", "index\tsentence\n0\tz\n");
  const Source a{.data = Path("a")};
  EXPECT_EQ(ReadAll("classify", a, Split::kValid), (Examples{{"y", "", "0", "dev.tsv", 2}}));
  // Without labels it is no split.
  EXPECT_EQ(FilesOf("classify", a, Split::kTest), Names{});
  EXPECT_TRUE(ReadAll("classify", a, Split::kTest).empty());

  Put("b/dev_matched.tsv", "sentence\tlabel\ny\t0\n");
  Put("b/dev_mismatched.tsv", "sentence\tlabel\nz\t0\n");
  Put("b/test.tsv", "sentence\tlabel\nz\t0\n");
  EXPECT_EQ(FilesOf("classify", {.data = Path("b")}, Split::kTrain), Names{});
  EXPECT_EQ(FilesOf("classify", {.data = Path("b")}, Split::kValid), Names{"b/dev_matched.tsv"});
  EXPECT_EQ(FilesOf("classify", {.data = Path("b")}, Split::kTest), Names{"b/test.tsv"});

  // Asked for by name, it must have labels.
  EXPECT_EQ(Sentence("classify", {.test = Path("a/test.tsv")}, Split::kTest),
            "which column of \"FOLDER/a/test.tsv\" is the label? Its first line has \"index\", "
            "\"sentence\"; name the column with --label-column, or give its number, from 1, if the "
            "file has no header");
}

TEST_F(ClassifyTest, OnlyATestSplitMayLackLabels) {
  Put("a/train.tsv", "index\tsentence\n0\tz\n");
  EXPECT_EQ(FilesOf("classify", {.data = Path("a")}, Split::kTrain), Names{"a/train.tsv"});
  EXPECT_TRUE(testing::Contains(Sentence("classify", {.data = Path("a")}), "is the label?"));
  // Scores are labels of another kind.
  Put("b/test.tsv", "sentence1\tsentence2\tscore\na\tb\t5.0\n");
  EXPECT_EQ(FilesOf("classify", {.data = Path("b")}, Split::kTest), Names{"b/test.tsv"});
  // The 4 in the first row is no header for column 4.
  Put("c/test.tsv", "0\t4\t7\tBad\n");
  const Source numbered{.data = Path("c"), .text_column = "4", .label_column = "1"};
  EXPECT_EQ(FilesOf("classify", numbered, Split::kTest), Names{"c/test.tsv"});
}

TEST_F(ClassifyTest, ColumnsAreTakenByName) {
  const std::string file =
      Write("a.tsv", "id\tsentence1\tsentence2\tlabel\tgenre\n1\ta\tb\t0\tx\n");
  EXPECT_EQ(
      ReadAll("classify", {.data = file, .text_column = "sentence2", .label_column = "genre"}),
      (Examples{{"b", "", "x", "a.tsv", 2}}));
  EXPECT_EQ(ReadAll("classify", {.data = file, .text_column = "sentence2", .pair_column = "id"}),
            (Examples{{"b", "1", "0", "a.tsv", 2}}));
  EXPECT_EQ(ReadAll("classify", {.data = file, .pair_column = "genre"}),
            (Examples{{"a", "x", "0", "a.tsv", 2}}));
  EXPECT_FALSE(FindTask("classify").Pairs({.data = file, .text_column = "sentence2"}));
  EXPECT_TRUE(FindTask("classify").Pairs({.data = file, .pair_column = "genre"}));
}

TEST_F(ClassifyTest, ColumnsAreTakenByNumberWhereThereIsNoHeader) {
  const std::string file = Write("train.tsv", "0\t3\t17\tStory of a man\n1\t9\t18\tGood\n");
  Source source{.data = folder_.string(), .text_column = "4", .label_column = "1"};
  EXPECT_EQ(ReadAll("text", source), (Examples{{"Story of a man", "", "0", "train.tsv", 1},
                                               {"Good", "", "1", "train.tsv", 2}}));
  EXPECT_FALSE(FindTask("text").Pairs(source));
  source.pair_column = "3";
  EXPECT_EQ(ReadAll("text", source).at(1), (Example{"Good", "18", "1", "train.tsv", 2}));
  EXPECT_TRUE(FindTask("text").Pairs(source));
}

TEST_F(ClassifyTest, DirectoriesAreClasses) {
  Put("train/pos/0_9.txt", "good\r\n");
  Put("train/neg/1_2.txt",
      "\xEF\xBB\xBF"
      "bad");
  Put("train/neg/0_3.txt", "worse\nthan bad\n\n");
  Put("train/unsup/0_0.txt", "whatever");
  Put("train/urls_pos.txt", "http");
  Put("train/neg/deeper/0_0.txt", "elsewhere");
  Put("test/pos/0_7.txt", "fine");
  EXPECT_EQ(ReadAll("classify", Here()), (Examples{{"worse\nthan bad", "", "neg", "0_3.txt", 0},
                                                   {"bad", "", "neg", "1_2.txt", 0},
                                                   {"good", "", "pos", "0_9.txt", 0}}));
  EXPECT_EQ(FilesOf("text", Here(), Split::kTest), Names{"test/pos/0_7.txt"});
  EXPECT_EQ(FilesOf("text", Here(), Split::kValid), Names{});
  EXPECT_FALSE(FindTask("classify").Pairs(Here()));
  for (const char* slash : {"", "/", "//"}) {
    EXPECT_EQ(ReadAll("classify", {.valid = Path("train") + slash}, Split::kValid).size(), 3u);
  }
}

TEST_F(ClassifyTest, APairMayHaveOneEmptySide) {
  const std::string file = Write("a.tsv", "text1\ttext2\tlabel\n\tb\t0\na\t\t1\n");
  EXPECT_EQ(ReadAll("classify", {.data = file}),
            (Examples{{"", "b", "0", "a.tsv", 2}, {"a", "", "1", "a.tsv", 3}}));
}

TEST_F(ClassifyTest, TextsNeedNotBeUtf8ForBytes) {
  Write("a.tsv", "text\tlabel\ncaf\xE9\t0\n");
  Put("d/train/x/1.txt", "caf\xE9");
  EXPECT_EQ(ReadAll("text", {.data = Path("a.tsv"), .any_bytes = true}).at(0).first, "caf\xE9");
  EXPECT_EQ(ReadAll("text", {.data = Path("d"), .any_bytes = true}).at(0).first, "caf\xE9");
  const std::string sentence =
      "byte 0xE9 is not UTF-8; convert the file, as by iconv -f LATIN1 -t UTF-8, or train a "
      "model with --tokenizer bytes";
  EXPECT_EQ(Sentence("text", {.data = Path("a.tsv")}),
            "\"FOLDER/a.tsv\", line 2, column 4 (offset 14): " + sentence);
  EXPECT_EQ(Sentence("text", {.data = Path("d")}),
            "\"FOLDER/d/train/x/1.txt\", line 1, column 4 (offset 3): " + sentence);
}

TEST_F(ClassifyTest, BadTablesAreRefusedWithASentence) {
  const std::string long_text(40, 'x');
  const struct {
    std::string contents;
    Source columns;
    std::string sentence;
  } cases[] = {
      {"a\tb\n1\t2\n",
       {},
       "which column of \"FOLDER/a.tsv\" is the text? Its first line has \"a\", \"b\"; name the "
       "column with --text-column, or give its number, from 1, if the file has no header"},
      {"0\t" + long_text + "\n",
       {},
       "which column of \"FOLDER/a.tsv\" is the text? Its first line has \"0\", \"" +
           long_text.substr(0, 32) +
           "...\"; name the column with --text-column, or give its number, from 1, if the file has "
           "no header"},
      {"text\tb\n1\t2\n",
       {},
       "which column of \"FOLDER/a.tsv\" is the label? Its first line has \"text\", \"b\"; name "
       "the column with --label-column, or give its number, from 1, if the file has no header"},
      {"sentence1\tsentence2\tscore\na\tb\t5.000\n",
       {},
       "\"FOLDER/a.tsv\" has scores, numbers to be predicted, and no label; task classify learns "
       "classes. If there is a column of classes, name it with --label-column"},
      {"text\tlabel\na\t0\n",
       {.text_column = "txt"},
       "\"FOLDER/a.tsv\" has no column \"txt\" for --text-column (did you mean \"text\"?); its "
       "first line has \"text\", \"label\""},
      {"gj04\t1\t\tA rope.\n",
       {.text_column = "x"},
       "\"FOLDER/a.tsv\" has no column \"x\" for --text-column; its first line has \"gj04\", "
       "\"1\", \"\", \"A rope.\""},
      {"text\tlabel\na\t0\n",
       {.pair_column = "second"},
       "\"FOLDER/a.tsv\" has no column \"second\" for --pair-column; its first line has \"text\", "
       "\"label\""},
      {"text\tlabel\na\t0\n",
       {.label_column = "quality"},
       "\"FOLDER/a.tsv\" has no column \"quality\" for --label-column; its first line has "
       "\"text\", \"label\""},
      {"a\t0\n",
       {.text_column = "1", .label_column = "3"},
       "--label-column is 3, but \"FOLDER/a.tsv\" has 2 columns, counted from 1; a number means "
       "that the file has no header"},
      {"a\t0\n",
       {.text_column = "0", .label_column = "2"},
       "--text-column is 0, but \"FOLDER/a.tsv\" has 2 columns, counted from 1; a number means "
       "that the file has no header"},
      {"a\t0\n",
       {.text_column = "99999999999999999999", .label_column = "2"},
       "--text-column is 99999999999999999999, but \"FOLDER/a.tsv\" has 2 columns, counted from "
       "1; a number means that the file has no header"},
      {"a\t0\n",
       {.text_column = "1"},
       "--label-column is \"\", but another column is given by its number, which means that "
       "\"FOLDER/a.tsv\" has no header; give all of them by number, or all by name"},
      {"a\t0\n",
       {.text_column = "text", .label_column = "2"},
       "--text-column is \"text\", but another column is given by its number, which means that "
       "\"FOLDER/a.tsv\" has no header; give all of them by number, or all by name"},
      {"a\t0\n",
       {.text_column = "1", .pair_column = "x", .label_column = "2"},
       "--pair-column is \"x\", but another column is given by its number, which means that "
       "\"FOLDER/a.tsv\" has no header; give all of them by number, or all by name"},
      {"text\tlabel\na\t0\n\t1\n", {}, "\"FOLDER/a.tsv\", line 3: the text is empty"},
      {"text\tlabel\na\t0\nb\t\n", {}, "\"FOLDER/a.tsv\", line 3: the label is empty"},
      {"text\tlabel\na\t0\nb\t1\t2\n",
       {},
       "\"FOLDER/a.tsv\", line 3: 3 cells, but the first line has 2; cells lie between tabs, and a "
       "text must hold none"},
      {"text\tlabel\n", {}, "\"FOLDER/a.tsv\" has no rows, only a header"},
      {"", {}, "\"FOLDER/a.tsv\" has no rows: it is empty"},
  };
  for (const auto& bad : cases) {
    Source source = bad.columns;
    source.data = Write("a.tsv", bad.contents);
    EXPECT_EQ(Sentence("classify", source), bad.sentence);
  }
}

TEST_F(ClassifyTest, BadDirectoriesAreRefusedWithASentence) {
  const std::string reads =
      "task classify reads; it reads " + FindTask("classify").description().layouts;
  Put("a/train/pos/0.txt", "\r\n");
  Put("b/train/x.txt", "text");
  EXPECT_EQ(Sentence("classify", {.data = Path("a")}),
            "\"FOLDER/a/train/pos/0.txt\" is empty, expected a text");
  EXPECT_EQ(Sentence("classify", {.data = Path("b")}),
            "--data \"FOLDER/b\" holds nothing that " + reads);
  EXPECT_EQ(Sentence("classify", {.train = Path("b")}), "");
  EXPECT_EQ(Sentence("classify", {.train = Path("b/train")}),
            "--train \"FOLDER/b/train\" holds nothing that " + reads);
  Put("c/train.tsv", "text\tlabel\na\t0\n");
  Put("c/test.tsv", "");
  EXPECT_EQ(Sentence("classify", {.data = Path("c")}, Split::kTest),
            "\"FOLDER/c/test.tsv\" has no rows: it is empty");
}

}  // namespace
}  // namespace cosformer::data
