#include "data/text_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cosformer/error.h"
#include "data/tasks/reading.h"
#include "formats/utf8.h"

namespace cosformer::data {
namespace {

using testing::MessageOf;

class TextFilesTest : public ReadingTest {
 protected:
  static std::vector<Example> Stretches(const std::vector<std::string>& files,
                                        bool any_bytes = false) {
    std::vector<Example> stretches;
    ReadStretches(files, any_bytes, [&](RawExample raw) {
      stretches.push_back({raw.first, raw.second, raw.label,
                           std::filesystem::path(raw.file).filename().string(), raw.line});
    });
    return stretches;
  }

  static std::string Joined(const std::vector<Example>& stretches) {
    std::string text;
    for (const Example& stretch : stretches) text += stretch.first;
    return text;
  }
};

std::string RandomText(std::mt19937& random, size_t size, size_t longest_line) {
  const std::string characters[] = {"a", "b", " ", "é", "€", "🙂"};
  std::string text = "begin\n";
  while (text.size() < size) {
    for (size_t n = random() % longest_line; n > 0; --n) text += characters[random() % 6];
    text += '\n';
  }
  return text;
}

TEST_F(TextFilesTest, EveryByteComesBackInWholeLines) {
  std::mt19937 random(3);
  for (const size_t size : {1u, 1000u, 5000u, 300'000u, 600'000u}) {
    for (const size_t longest : {2u, 80u, 900u}) {
      const std::string text = RandomText(random, size, longest);
      const auto stretches = Stretches({Write("a.txt", text)});
      ASSERT_TRUE(Joined(stretches) == text);
      const auto target = static_cast<size_t>(StretchBytes(static_cast<int64_t>(text.size())));
      int64_t line = 1;
      for (const Example& stretch : stretches) {
        ASSERT_TRUE(stretch.first.ends_with('\n'));
        // Longer only where one line is.
        const std::string_view all_but_end(stretch.first.data(), stretch.first.size() - 1);
        ASSERT_TRUE(stretch.first.size() <= target || all_but_end.find('\n') == std::string::npos);
        ASSERT_EQ(stretch.line, line);
        line += std::ranges::count(stretch.first, '\n');
      }
      // As many as the size says: the next line would not have gone in.
      for (size_t i = 0; i + 1 < stretches.size(); ++i) {
        const std::string& next = stretches[i + 1].first;
        ASSERT_GT(stretches[i].first.size() + next.find('\n') + 1, target);
      }
    }
  }
}

TEST_F(TextFilesTest, SmallTextsComeInSmallStretches) {
  EXPECT_EQ(StretchBytes(0), 1024);
  EXPECT_EQ(StretchBytes(256 * 1025), 1025);
  EXPECT_EQ(StretchBytes(256 * 65536 - 256), 65535);
  EXPECT_EQ(StretchBytes(int64_t{1} << 40), 65536);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  EXPECT_GE(Stretches({Write("a.txt", text)}).size(), 8u);
}

TEST_F(TextFilesTest, ALineLongerThanSixteenStretchesIsCutBetweenCharacters) {
  std::string text;
  while (text.size() < 60'000) text += "€";
  for (const size_t shift : {0u, 1u, 2u}) {
    const std::string shifted = std::string(shift, 'x') + text;
    const auto stretches = Stretches({Write("a.txt", shifted + "\nend")});
    EXPECT_TRUE(Joined(stretches) == shifted + "\nend");
    ASSERT_EQ(stretches.size(), 5u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_LE(stretches[i].first.size(), 16u * 1024);
      EXPECT_GT(stretches[i].first.size(), 16u * 1024 - 3);
      EXPECT_EQ(FindInvalidUtf8(stretches[i].first), stretches[i].first.size());
      EXPECT_EQ(stretches[i].line, 1);
    }
    EXPECT_EQ(stretches.back().first, "end");
    EXPECT_EQ(stretches.back().line, 2);
  }
}

TEST_F(TextFilesTest, LinesOfDifferentFilesDoNotRunTogether) {
  const std::string a = Write("a.txt", "one"), b = Write("b.txt", "two\n"), c = Write("c.txt", ""),
                    d = Write("d.txt", "three");
  EXPECT_EQ(Stretches({a, b, c, d}), (std::vector<Example>{{"one\n", "", "", "a.txt", 1},
                                                           {"two\n", "", "", "b.txt", 1},
                                                           {"three", "", "", "d.txt", 1}}));
}

TEST_F(TextFilesTest, NoLineEndIsPutWhereALineIsOnlyCut) {
  const std::string line(40'000, 'x');
  EXPECT_TRUE(Joined(Stretches({Write("a.txt", line), Write("b.txt", "end")})) == line + "\nend");
}

TEST_F(TextFilesTest, AByteOrderMarkIsNoTextUnlessBytesAreWanted) {
  const std::string path = Write("a.txt", "\xEF\xBB\xBFtext\n");
  EXPECT_EQ(Joined(Stretches({path})), "text\n");
  EXPECT_EQ(Joined(Stretches({path}, true)), "\xEF\xBB\xBFtext\n");
}

TEST_F(TextFilesTest, AnyBytesComeBackWhereTheyAreWelcome) {
  std::mt19937 random(4);
  std::string bytes(100'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  EXPECT_TRUE(Joined(Stretches({Write("a.txt", bytes)}, true)) == bytes);
  const std::string continuation(40'000, '\x80');
  EXPECT_TRUE(Joined(Stretches({Write("a.txt", continuation)}, true)) == continuation);
}

TEST_F(TextFilesTest, BytesThatAreNotUtf8AreNamedWithTheirPlace) {
  // In the second stretch of a long line, in the second file, and behind a byte order mark.
  const std::string a = Write("a.txt", "fine\n");
  const std::string b = Write("b.txt",
                              "\xEF\xBB\xBF"
                              "line\n" +
                                  std::string(20'000, 'x') + "\xFFyz\n");
  EXPECT_EQ(MessageOf([&] {
              Stretches({a, b});
            }),
            "\"" + b +
                "\", line 2, column 20001 (offset 20008): byte 0xFF is not UTF-8; convert the "
                "file, as by iconv -f LATIN1 -t UTF-8, or train a model with --tokenizer bytes");
  const std::string cut = Write("c.txt", "caf\xC3");
  EXPECT_TRUE(testing::Contains(MessageOf([&] { Stretches({cut}); }),
                                "line 1, column 4 (offset 3): byte 0xC3 is not UTF-8"));
}

TEST_F(TextFilesTest, NothingButBlanksIsRefused) {
  const std::string empty = Write("empty.txt", ""), blank = Write("blank.txt", " \n\t\r\n\v\f\n");
  EXPECT_EQ(MessageOf([&] { Stretches({empty}); }), "there is no text in \"" + empty + "\": empty");
  EXPECT_EQ(MessageOf([&] { Stretches({blank}); }),
            "there is no text in \"" + blank + "\": nothing but blanks");
  EXPECT_EQ(MessageOf([&] {
              Stretches({empty, blank, empty});
            }),
            "there is no text in \"" + empty + "\" and 2 more files: nothing but blanks");
  const std::string text = Write("a.txt", "x");
  EXPECT_EQ(Stretches({empty, blank, text}).size(), 2u);
  EXPECT_EQ(Stretches({text, blank, empty}).size(), 2u);
}

TEST_F(TextFilesTest, FilesUnderADirectoryAreSortedAndHiddenOnesLeftOut) {
  for (const char* name : {"b.txt", "a/z.txt", "a/deep/er/y.txt", "c.md", ".hidden.txt",
                           ".git/x.txt", "a.txt", "txt"}) {
    Put(name, "text");
  }
  std::vector<std::string> names;
  for (const std::string& file : FilesUnder(folder_.string(), ".txt")) {
    names.push_back(std::filesystem::relative(file, folder_).string());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a.txt", "a/deep/er/y.txt", "a/z.txt", "b.txt"}));
  EXPECT_EQ(MessageOf([&] { FilesUnder(Path("none"), ".txt"); }),
            "cannot read the directory \"" + Path("none") + "\": No such file or directory");
}

}  // namespace
}  // namespace cosformer::data
