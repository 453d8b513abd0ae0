// The line of a long run on screens of all kinds, and when it is drawn.
#include "report/meter.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "captured.h"
#include "contains.h"

namespace cosformer::report {
namespace {

using cosformer::testing::Captured;
using cosformer::testing::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Screen kWide{.terminal = true, .utf8 = true, .colour = false, .columns = 120};
constexpr Screen kLog{};
constexpr Meter::Clock::time_point kStart{};

Screen WithColumns(int columns) {
  Screen screen = kWide;
  screen.columns = columns;
  return screen;
}

TEST(MeterTest, TheBarGrowsInEighthsOfAColumn) {
  const Screen screen = WithColumns(2 + 8 + 8 + 1);  // ends, bar, "  0 %  a", the free column
  EXPECT_EQ(RenderMeter(0, "a", screen), "▕        ▏  0 %  a");
  EXPECT_EQ(RenderMeter(0.5, "a", screen), "▕████    ▏ 50 %  a");
  EXPECT_EQ(RenderMeter(0.5 + 1 / 64.0, "a", screen), "▕████▏   ▏ 51 %  a");
  EXPECT_EQ(RenderMeter(0.5 + 7 / 64.0, "a", screen), "▕████▉   ▏ 60 %  a");
  EXPECT_EQ(RenderMeter(1, "a", screen), "▕████████▏100 %  a");
}

TEST(MeterTest, OnlyWhatIsFinishedLooksFinished) {
  const std::string line = RenderMeter(0.9999, "a", kWide);
  EXPECT_TRUE(Contains(line, " 99 %"));
  EXPECT_TRUE(Contains(line, "▉▏"));
}

TEST(MeterTest, FractionsOutsideAreHeld) {
  EXPECT_EQ(RenderMeter(-3, "a", kWide), RenderMeter(0, "a", kWide));
  EXPECT_EQ(RenderMeter(7, "a", kWide), RenderMeter(1, "a", kWide));
  EXPECT_EQ(RenderMeter(std::numeric_limits<double>::quiet_NaN(), "a", kWide),
            RenderMeter(0, "a", kWide));
}

TEST(MeterTest, WithoutUtf8ThereIsNothingButAscii) {
  Screen screen = WithColumns(19);
  screen.utf8 = false;
  EXPECT_EQ(RenderMeter(0.5 + 7 / 64.0, "a", screen), "[####    ] 60 %  a");
  screen.columns = 12;
  EXPECT_EQ(RenderMeter(0.5, "step 4 of 9", screen), " 50 %  s...");
}

TEST(MeterTest, ColourTakesNoColumns) {
  Screen screen = WithColumns(40);
  const std::string plain = RenderMeter(0.5, "a", screen);
  screen.colour = true;
  std::string coloured = RenderMeter(0.5, "a", screen);
  ASSERT_TRUE(Contains(coloured, "\x1b[36m█"));
  ASSERT_TRUE(Contains(coloured, "▌\x1b[0m "));
  coloured.erase(coloured.find("\x1b[36m"), 5);
  coloured.erase(coloured.find("\x1b[0m"), 4);
  EXPECT_EQ(coloured, plain);
}

TEST(MeterTest, OnAnyWidthTheLineFitsAndTheTextGoesLast) {
  const std::string text = "step 450 of 1,000  33.1 k µ×  2 min left";
  for (int columns = 1; columns < 150; ++columns) {
    const std::string line = RenderMeter(0.45, text, WithColumns(columns));
    EXPECT_LT(ColumnsOf(line), columns);
    EXPECT_EQ(Contains(line, text), columns - 1 >= 7 + ColumnsOf(text)) << line;
    EXPECT_EQ(Contains(line, "▕"), columns - 1 >= 10 + 7 + ColumnsOf(text)) << line;
  }
  // Beyond that a bar would be all there is to see.
  EXPECT_LT(ColumnsOf(RenderMeter(0.45, text, WithColumns(300))), 90);
  EXPECT_LT(ColumnsOf(RenderMeter(0.45, text, WithColumns(0))), 80);
}

TEST(MeterTest, WhereItIsNarrowTheTimeLeftStaysLongest) {
  const std::string text = "step 450 of 1,000  loss 4.321  lr 1.0e-03";
  const auto line = [&](int columns) {
    return RenderMeter(0.45, text, WithColumns(columns), "2 min left");
  };
  EXPECT_TRUE(Contains(line(100), "▏ 45 %  " + text + "  2 min left"));
  EXPECT_EQ(line(61), " 45 %  " + text + "  2 min left");
  EXPECT_EQ(line(60), " 45 %  step 450 of 1,000  loss 4.321  2 min left");
  EXPECT_EQ(line(45), " 45 %  step 450 of 1,000  2 min left");
  EXPECT_TRUE(Contains(line(30), " 45 %  step 450 of 1,000"));
  EXPECT_LT(ColumnsOf(line(30)), 30);
}

TEST(MeterTest, ALogHasNoBarAndAllOfTheText) {
  const std::string text(200, 'x');
  EXPECT_EQ(RenderMeter(0.456, text, kLog), "45 %  " + text);
}

TEST(MeterTest, ATerminalIsRedrawnTenTimesASecondAtMost) {
  Captured captured;
  Meter meter(captured.stream(), kWide, kStart);
  meter.Show(0, "first", kStart);
  EXPECT_TRUE(Contains(captured.Take(), "first"));
  meter.Show(0, "second", kStart + milliseconds(99));
  EXPECT_EQ(captured.Take(), "");
  meter.Show(0, "third", kStart + milliseconds(100));
  EXPECT_TRUE(Contains(captured.Take(), "third"));
}

TEST(MeterTest, ALogGetsALineNowAndThen) {
  Captured captured;
  Meter meter(captured.stream(), kLog, kStart);
  meter.Show(0.1, "one", kStart + seconds(19));
  meter.Show(0.2, "two", kStart + seconds(20));
  meter.Show(0.3, "three", kStart + seconds(39));
  meter.Show(0.4, "four", kStart + seconds(41));
  EXPECT_EQ(captured.Text(), "20 %  two  8 s left\n40 %  four  44 s left\n");
}

TEST(MeterTest, TheTimeLeftCountsFromWhereTheRunWasResumed) {
  Captured captured;
  Meter meter(captured.stream(), kWide, kStart);
  meter.Show(0.5, "a", kStart);
  EXPECT_FALSE(Contains(captured.Take(), "left"));
  meter.Show(0.51, "a", kStart + milliseconds(999));
  EXPECT_FALSE(Contains(captured.Take(), "left"));
  meter.Show(0.6, "a", kStart + seconds(10));
  EXPECT_TRUE(Contains(captured.Take(), "a  40 s left"));
  meter.Show(1, "a", kStart + seconds(50));
  EXPECT_FALSE(Contains(captured.Take(), "left"));
}

TEST(MeterTest, FullLinesStandAboveTheLiveOne) {
  Captured captured;
  Meter meter(captured.stream(), kWide, kStart);
  meter.Line("before");
  EXPECT_EQ(captured.Take(), "before\n");
  meter.Show(0, "live", kStart);
  const std::string live = captured.Take();
  meter.Line("valid loss 4.2");
  EXPECT_EQ(captured.Take(), "\r\x1b[Kvalid loss 4.2\n" + live);
  meter.Clear();
  EXPECT_EQ(captured.Take(), "\r\x1b[K");
  meter.Line("after");
  EXPECT_EQ(captured.Take(), "after\n");
  // At once, since nothing is to be seen.
  meter.Show(0, "live", kStart + milliseconds(1));
  EXPECT_EQ(captured.Take(), live);
}

TEST(MeterTest, ALogHasItsFullLinesAlways) {
  Captured captured;
  Meter meter(captured.stream(), kLog, kStart);
  meter.Line("valid loss 4.2");
  meter.Clear();
  EXPECT_EQ(captured.Text(), "valid loss 4.2\n");
}

}  // namespace
}  // namespace cosformer::report
