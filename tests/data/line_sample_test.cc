#include "data/line_sample.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace cosformer::data {
namespace {

std::vector<std::string> Texts(const LineSample& sample) {
  std::vector<std::string> texts;
  for (const LineSample::Line& line : sample.lines()) texts.push_back(line.text);
  return texts;
}

TEST(LineSample, AShortTextIsKeptWholeButForItsEmptyLines) {
  LineSample sample(1 << 20);
  sample.Add("a\n\n b \nc");
  sample.Add("");
  sample.Add("\nd\r\n");
  EXPECT_EQ(Texts(sample), (std::vector<std::string>{"a", " b ", "c", "d\r"}));
}

TEST(LineSample, ALongTextFillsTheSampleFromEverywhere) {
  constexpr size_t kMost = 200'000;
  LineSample sample(kMost), again(kMost);
  std::string all;
  for (int i = 0; i < 100'000; ++i) {
    const std::string line = fmt::format("line number {:06}\n", i);
    sample.Add(line);
    all += line;
  }
  again.Add(all);
  EXPECT_EQ(Texts(sample), Texts(again));

  size_t bytes = 0;
  std::vector<int> in_tenth(10), in_step(4);
  int last = -1;
  for (const std::string& text : Texts(sample)) {
    const int number = std::stoi(text.substr(12));
    EXPECT_GT(number, last);
    last = number;
    bytes += text.size() + sizeof(LineSample::Line);
    ++in_tenth[static_cast<size_t>(number / 10'000)];
    ++in_step[static_cast<size_t>(number % 4)];
  }
  EXPECT_LE(bytes, kMost);
  EXPECT_GT(bytes, kMost * 4 / 5);
  // Shares within six standard deviations of what chance would give.
  const auto count = static_cast<double>(sample.lines().size());
  for (const int lines : in_tenth) EXPECT_NEAR(lines, count / 10, 6 * std::sqrt(count / 10));
  for (const int lines : in_step) EXPECT_NEAR(lines, count / 4, 6 * std::sqrt(count / 4));
}

TEST(LineSample, ShortLinesAreCountedWithThePlaceTheyTake) {
  LineSample sample(10'000);
  for (int i = 0; i < 10'000; ++i) sample.Add("a\n");
  EXPECT_LE(sample.lines().size(), 10'000 / sizeof(LineSample::Line));
}

TEST(LineSample, LongLinesAreCutAtBlanks) {
  std::string line;
  while (line.size() < 50'000) line += " word";
  LineSample sample(1 << 20);
  sample.Add(line);
  std::string joined;
  for (const std::string& text : Texts(sample)) {
    EXPECT_LE(text.size(), LineSample::kLongest);
    EXPECT_TRUE(text.starts_with(" word"));
    EXPECT_TRUE(text.ends_with("word"));
    joined += text;
  }
  EXPECT_EQ(joined, line);
}

}  // namespace
}  // namespace cosformer::data
