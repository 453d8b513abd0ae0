#include <gtest/gtest.h>

#include "data/tasks/reading.h"

namespace cosformer::data {
namespace {

using Examples = std::vector<Example>;
using Names = std::vector<std::string>;
using RetrievalTest = ReadingTest;

TEST_F(RetrievalTest, TheArenasFilesHoldBothTexts) {
  Write("new_aan_pairs.train.tsv",
        "1.0\tA\tB\tb'first\\n\\xc3\\xa9'\tb\"it's\"\r\n0.0\tA\tC\tplain\t\"quoted\"\r\n");
  Write("new_aan_pairs.eval.tsv", "1\tA\tB\tx\ty\n");
  Write("new_aan_pairs.test.tsv", "0\tA\tB\tx\ty\n");
  const std::string file = "new_aan_pairs.train.tsv";
  EXPECT_EQ(ReadAll("retrieval", Here()),
            (Examples{{"first\né", "it's", "1", file, 1}, {"plain", "\"quoted\"", "0", file, 2}}));
  EXPECT_EQ(FilesOf("retrieval", Here(), Split::kValid), Names{"new_aan_pairs.eval.tsv"});
  EXPECT_EQ(FilesOf("retrieval", Here(), Split::kTest), Names{"new_aan_pairs.test.tsv"});
  EXPECT_TRUE(FindTask("retrieval").Pairs(Here()));
}

TEST_F(RetrievalTest, NamesStandForPapersBesideThem) {
  Write("papers.tsv", "A\ttext of A\nB\tb'as it is'\n");
  Write("pairs.train.tsv", "1\tA\tB\n0\tB\tB\n");
  Write("pairs.valid.tsv", "0\tB\tA\n");
  const std::string file = "pairs.train.tsv";
  EXPECT_EQ(ReadAll("retrieval", Here()), (Examples{{"text of A", "b'as it is'", "1", file, 1},
                                                    {"b'as it is'", "b'as it is'", "0", file, 2}}));
  // A change of the texts is a change of the split.
  EXPECT_EQ(FilesOf("retrieval", Here(), Split::kValid), (Names{"pairs.valid.tsv", "papers.tsv"}));
  EXPECT_EQ(FilesOf("retrieval", Here(), Split::kTest), Names{});
  EXPECT_EQ(ReadAll("retrieval", {.test = Path("pairs.train.tsv")}, Split::kTest).size(), 2u);
}

TEST_F(RetrievalTest, BytesThatAreNotUtf8AreReadForBytes) {
  Source source{.data = Write("a.tsv", "1\tA\tB\tx\tb'\\xff'\n")};
  EXPECT_EQ(Sentence("retrieval", source),
            "\"FOLDER/a.tsv\", line 1: the text in column 5 stands for bytes that are not UTF-8; "
            "train a model with --tokenizer bytes");
  source.any_bytes = true;
  EXPECT_EQ(ReadAll("retrieval", source).at(0).second, "\xFF");
}

TEST_F(RetrievalTest, BadTablesAreRefusedWithASentence) {
  const struct {
    const char *pairs, *papers, *sentence;
  } cases[] = {
      {"1\tA\tB\n", nullptr, "cannot read \"FOLDER/papers.tsv\": No such file or directory"},
      {"1\tA\tB\n", "A\tx\n",
       "\"FOLDER/a.tsv\", line 1: paper \"B\" is not in \"FOLDER/papers.tsv\""},
      {"1\tA\tB\n", "A\tx\nB\t\n", "\"FOLDER/a.tsv\", line 1: the text of column 3 is empty"},
      {"1\tA\tB\n", "A\tx\nA\ty\n", "\"FOLDER/papers.tsv\", line 2: paper \"A\" is there already"},
      {"1\tA\tB\n", "A\tx\ty\n",
       "\"FOLDER/papers.tsv\", line 1: 3 columns, expected 2: name and text"},
      {"1\tA\tB\n", "", "\"FOLDER/papers.tsv\" has no rows: it is empty"},
      {"1\tA\tB\tx\n", nullptr,
       "\"FOLDER/a.tsv\" has 4 columns, expected 5 (label, name, name, text, text) or 3 (label, "
       "name, name, with the texts in papers.tsv beside it)"},
      {"1\tA\tB\tx\ty\n2\tA\tB\tx\ty\n", nullptr,
       "\"FOLDER/a.tsv\", line 2: the label is \"2\", expected 0 or 1"},
      {"1\tA\tB\tx\ty\n1\tA\tB\n", nullptr,
       "\"FOLDER/a.tsv\", line 2: 3 cells, but the first line has 5; cells lie between tabs, and a "
       "text must hold none"},
      {"1\tA\tB\tb''\ty\n", nullptr, "\"FOLDER/a.tsv\", line 1: the text of column 4 is empty"},
      {"", nullptr, "\"FOLDER/a.tsv\" has no rows: it is empty"},
  };
  for (const auto& bad : cases) {
    std::filesystem::remove(Path("papers.tsv"));
    if (bad.papers != nullptr) Write("papers.tsv", bad.papers);
    EXPECT_EQ(Sentence("retrieval", {.data = Write("a.tsv", bad.pairs)}), bad.sentence);
  }
}

}  // namespace
}  // namespace cosformer::data
