#include "data/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>
#include <vector>

#include "contains.h"
#include "formats/folder.h"

namespace cosformer::data {
namespace {

using testing::MessageOf;
using InputFileTest = testing::FolderTest;

struct PlacedLine {
  std::string text;
  int64_t line, offset;
  bool operator==(const PlacedLine&) const = default;
};

std::vector<PlacedLine> Lines(const std::string& path) {
  LineReader reader(path);
  std::vector<PlacedLine> lines;
  for (std::string_view line; reader.Next(line);) {
    lines.push_back({std::string(line), reader.position().line, reader.position().offset});
  }
  return lines;
}

TEST_F(InputFileTest, LinesComeWithoutTheirEndsAndWithTheirPlaces) {
  EXPECT_EQ(Lines(Write("a", "one\ntwo\r\n\nlast")),
            (std::vector<PlacedLine>{{"one", 1, 0}, {"two", 2, 4}, {"", 3, 9}, {"last", 4, 10}}));
  EXPECT_EQ(Lines(Write("a", "\xEF\xBB\xBFone\ntwo\n")),
            (std::vector<PlacedLine>{{"one", 1, 3}, {"two", 2, 7}}));
  EXPECT_EQ(Lines(Write("a", "")), std::vector<PlacedLine>{});
  EXPECT_EQ(Lines(Write("a", "\n")), (std::vector<PlacedLine>{{"", 1, 0}}));
}

TEST_F(InputFileTest, RandomLinesLongerAndShorterThanABlockComeBack) {
  std::mt19937 random(2);
  for (int i = 0; i < 8; ++i) {
    std::string text;
    std::vector<PlacedLine> expected;
    for (int k = 0; k < 40; ++k) {
      const size_t length = random() % 8 == 0 ? random() % 600'000 : random() % 20'000;
      const std::string line(length, static_cast<char>('a' + k % 26));
      expected.push_back({line, k + 1, static_cast<int64_t>(text.size())});
      text += line + '\n';
    }
    if (random() % 2 == 0 && !expected.back().text.empty()) text.pop_back();
    ASSERT_TRUE(Lines(Write("a", text)) == expected);
  }
}

TEST_F(InputFileTest, ALineMayEndAtAnyPlaceAroundTheEndOfABlock) {
  for (const int around : {-2, -1, 0, 1}) {
    const std::string line(static_cast<size_t>((1 << 18) + around), 'a');
    const std::vector<PlacedLine> lines = Lines(Write("a", line + "\r\nb\n"));
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_TRUE(lines[0].text == line);
    EXPECT_EQ(lines[1].text, "b");
  }
}

TEST_F(InputFileTest, AWholeFileComesWithoutAByteOrderMark) {
  EXPECT_EQ(ReadWhole(Write("a", "\xEF\xBB\xBFtext\r\n")), "text\r\n");
  EXPECT_EQ(ReadWhole(Write("a", std::string("\0x", 2))), std::string("\0x", 2));
}

TEST_F(InputFileTest, WhatCannotBeReadIsNamed) {
  const std::string path = Path("x");
  EXPECT_EQ(MessageOf([&] { InputFile{path}; }),
            "cannot read \"" + path + "\": No such file or directory");
  EXPECT_EQ(MessageOf([&] { FileSize(path); }),
            "cannot read \"" + path + "\": No such file or directory");
  EXPECT_EQ(MessageOf([&] { InputFile{folder_.string()}; }),
            "cannot read \"" + folder_.string() + "\": Is a directory");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(MessageOf([&] { InputFile{path}; }),
            "cannot read \"" + path +
                "\": it is no regular file, and what is learned from is read more than once; save "
                "it to a file first");
}

TEST_F(InputFileTest, WhatIsTooLongIsRefused) {
  const std::string path = Write("a", "short\nlonger than that\n");
  LineReader reader(path, 8);
  std::string_view line;
  ASSERT_TRUE(reader.Next(line));
  EXPECT_EQ(MessageOf([&] { reader.Next(line); }),
            "\"" + path + "\", line 2: the line is longer than 8 B; is this a table of text?");
  EXPECT_EQ(MessageOf([&] { ReadWhole(path, 8); }),
            "\"" + path + "\" has 23 B, but one example has at most 8 B");
}

}  // namespace
}  // namespace cosformer::data
