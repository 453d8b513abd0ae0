// Widths of text, and the line that renews itself.
#include "report/terminal.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "captured.h"

namespace cosformer::report {
namespace {

using cosformer::testing::Captured;

TEST(TerminalTest, WidthsAreColumnsNotBytes) {
  EXPECT_EQ(ColumnsOf(""), 0);
  EXPECT_EQ(ColumnsOf("loss 4.3"), 8);
  EXPECT_EQ(ColumnsOf("µs ×"), 4);
  EXPECT_EQ(ColumnsOf("▕██▌▏"), 5);
  EXPECT_EQ(ColumnsOf("e\u0301"), 1);  // a combining accent
  EXPECT_EQ(ColumnsOf("日本"), 4);
  EXPECT_EQ(ColumnsOf("🚀"), 2);
}

TEST(TerminalTest, BytesThatAreNotUtf8CountOneEach) {
  EXPECT_EQ(ColumnsOf("\xFF\xFE"), 2);
  EXPECT_EQ(ColumnsOf("\xE2\x96"), 2);  // cut short
  EXPECT_EQ(ColumnsOf("\xE2"
                      "ab"),
            3);                         // not continued
  EXPECT_EQ(ColumnsOf("\x80\x80"), 2);  // without a beginning
}

TEST(TerminalTest, TextThatFitsStaysAndTheRestEndsInAnEllipsis) {
  EXPECT_EQ(FitColumns("12345", 5, true), "12345");
  EXPECT_EQ(FitColumns("123456", 5, true), "1234…");
  EXPECT_EQ(FitColumns("123456", 5, false), "12...");
  EXPECT_EQ(FitColumns("日本語", 5, true), "日本…");
  EXPECT_EQ(FitColumns("日本語", 4, true), "日…");
  EXPECT_EQ(FitColumns("123", 0, true), "");
  EXPECT_EQ(FitColumns("", 0, true), "");
}

TEST(TerminalTest, ControlCharactersCanNotBreakTheLine) {
  EXPECT_EQ(FitColumns("a\nb\x1b[2Jc\rd\x7f", 80, true), "a b [2Jc d ");
}

TEST(TerminalTest, NoTextIsEverWiderThanItsRoom) {
  std::mt19937 random(7);
  const std::string pieces[] = {"a", "µ", "日", "🚀", "e\u0301", "\xFF", "\xE2\x96", " "};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int j = static_cast<int>(random() % 12); j > 0; --j) text += pieces[random() % 8];
    const int room = static_cast<int>(random() % 16);
    const bool utf8 = random() % 2 == 0;
    EXPECT_LE(ColumnsOf(FitColumns(text, room, utf8)), room) << text;
  }
}

TEST(TerminalTest, TheLiveLineReplacesItselfAndGoes) {
  Captured captured;
  {
    LiveLine line(captured.stream(), {.terminal = true, .utf8 = true, .colour = false});
    line.Show("one");
    line.Show("two");
    line.Print("kept");
    line.Clear();
    line.Show("three");
  }
  EXPECT_EQ(captured.Text(), "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[Kkept\n\r\x1b[Kthree\r\x1b[K");
}

TEST(TerminalTest, TheEnvironmentSaysWhatCanBeShown) {
  const auto set = [](const char* all, const char* lang) {
    setenv("LC_ALL", all, 1);
    unsetenv("LC_CTYPE");
    setenv("LANG", lang, 1);
  };
  set("", "en_GB.UTF-8");
  EXPECT_TRUE(StderrScreen().utf8);
  set("", "de_DE.utf8");
  EXPECT_TRUE(StderrScreen().utf8);
  set("C", "en_GB.UTF-8");
  EXPECT_FALSE(StderrScreen().utf8);
  set("", "");
  EXPECT_FALSE(StderrScreen().utf8);
}

}  // namespace
}  // namespace cosformer::report
