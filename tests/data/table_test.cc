#include "data/table.h"

#include <gtest/gtest.h>

#include "contains.h"
#include "formats/folder.h"

namespace cosformer::data {
namespace {

using testing::MessageOf;
using Rows = std::vector<std::vector<std::string>>;

class TableTest : public testing::FolderTest {
 protected:
  Rows ReadAll(const std::string& contents, Table::Header header, bool any_bytes = false) const {
    Table table(Write("a.tsv", contents), header, any_bytes);
    Rows rows;
    while (table.Next()) {
      rows.push_back({std::to_string(table.line())});
      for (size_t i = 0; i < table.columns(); ++i) rows.back().emplace_back(table.cell(i));
    }
    return rows;
  }

  std::string Sentence(const std::string& contents, Table::Header header) const {
    return MessageOf([&] { ReadAll(contents, header); });
  }
};

TEST_F(TableTest, RowsComeWithTheirLines) {
  EXPECT_EQ(ReadAll("text\tlabel\na b\t1\n\"quoted\t\"\n", Table::Header::kYes),
            (Rows{{"2", "a b", "1"}, {"3", "\"quoted", "\""}}));
  EXPECT_EQ(ReadAll("a b\t1\n\t", Table::Header::kNo), (Rows{{"1", "a b", "1"}, {"2", "", ""}}));
}

TEST_F(TableTest, WindowsLineEndsAndAByteOrderMarkAreNoCells) {
  EXPECT_EQ(ReadAll("\xEF\xBB\xBFx\ty\r\n1\t2\r\n\r\n", Table::Header::kYes),
            (Rows{{"2", "1", "2"}}));
  Write("a.tsv", "\xEF\xBB\xBFx\ty\r\n");
  EXPECT_EQ(FirstRow(Path("a.tsv")), (std::vector<std::string>{"x", "y"}));
}

TEST_F(TableTest, EmptyLinesAreOverlookedOnlyAtTheEnd) {
  EXPECT_EQ(ReadAll("1\t2\n\n\n", Table::Header::kNo), (Rows{{"1", "1", "2"}}));
  const std::string path = Path("a.tsv");
  EXPECT_EQ(Sentence("1\t2\n\n\n3\t4\n", Table::Header::kNo),
            "\"" + path + "\", line 2 is empty; a row has cells with tabs between them");
}

TEST_F(TableTest, BadTablesAreNamedWithTheirLine) {
  const std::string path = Path("a.tsv"), file = "\"" + path + "\"";
  const struct {
    const char* contents;
    Table::Header header;
    const char* sentence;
  } cases[] = {
      {"x\ty\n1\t2\n1\t2\t3\n", Table::Header::kYes,
       ", line 3: 3 cells, but the first line has 2; cells lie between tabs, and a text must hold "
       "none"},
      {"1\t2\n1\n", Table::Header::kNo,
       ", line 2: 1 cells, but the first line has 2; cells lie between tabs, and a text must hold "
       "none"},
      {"", Table::Header::kYes, " has no rows: it is empty"},
      {"\n\n", Table::Header::kNo, " has no rows: it is empty"},
      {"x\ty\n", Table::Header::kYes, " has no rows, only a header"},
      {"x\ty\na\tcaf\xE9\n", Table::Header::kYes,
       ", line 2, column 6 (offset 9): byte 0xE9 is not UTF-8; convert the file, as by iconv -f "
       "LATIN1 -t UTF-8, or train a model with --tokenizer bytes"},
  };
  for (const auto& bad : cases) {
    EXPECT_EQ(Sentence(bad.contents, bad.header), file + bad.sentence) << bad.contents;
  }
  Write("a.tsv", "");
  EXPECT_EQ(MessageOf([&] { FirstRow(Path("a.tsv")); }), file + " has no rows: it is empty");
}

TEST_F(TableTest, AnyBytesAreReadWhereTheyAreWelcome) {
  EXPECT_EQ(ReadAll("\xFF\t\xE9\n", Table::Header::kNo, true), (Rows{{"1", "\xFF", "\xE9"}}));
}

}  // namespace
}  // namespace cosformer::data
