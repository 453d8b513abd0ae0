#include "reproduce/budget.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "contains.h"

namespace cosformer::reproduce {
namespace {

using testing::Contains;
using testing::MessageOf;

TEST(BudgetTest, TimesHaveUnits) {
  EXPECT_EQ(ParseDuration("2h", "--budget"), 7200);
  EXPECT_EQ(ParseDuration("90m", "--budget"), 5400);
  EXPECT_EQ(ParseDuration("7200s", "--budget"), 7200);
  EXPECT_EQ(ParseDuration("1h30m", "--budget"), 5400);
  EXPECT_EQ(ParseDuration("0.5h", "--budget"), 1800);
  EXPECT_EQ(ParseDuration("1h1m1s", "--budget"), 3661);
}

TEST(BudgetTest, WhatIsNoTimeIsRefusedWithTheOptionAndExamples) {
  for (const char* text : {"", "2", "h", "2d", "2h x", "-1h", "0s", "1m1h", "1h1h", "nan", "infs",
                           "1e3s", " 1h", "1h "}) {
    const std::string message = MessageOf([&] { ParseDuration(text, "--budget"); });
    EXPECT_TRUE(Contains(message, std::string("--budget is \"") + text + "\"")) << text;
    EXPECT_TRUE(Contains(message, "90m"));
  }
}

TEST(BudgetTest, MemoryCountsInPowersOfTwo) {
  EXPECT_EQ(ParseBytes("8G", "--memory"), int64_t{8} << 30);
  EXPECT_EQ(ParseBytes("512M", "--memory"), int64_t{512} << 20);
  EXPECT_EQ(ParseBytes("1.5G", "--memory"), int64_t{3} << 29);
  EXPECT_EQ(ParseBytes("4096", "--memory"), 4096);
  for (const char* text : {"", "G", "8X", "8GB", "0", "-1G", "nan", "1e30T"}) {
    EXPECT_TRUE(Contains(MessageOf([&] { ParseBytes(text, "--memory"); }), "--memory is")) << text;
  }
}

TEST(BudgetTest, SharesAddUpAndFollowTheWeights) {
  const std::vector<double> weights = {4, 1, 1, 0, 2};
  const std::vector<double> shares = Shares(80, weights);
  EXPECT_EQ(shares, (std::vector<double>{40, 10, 10, 0, 20}));
  EXPECT_EQ(Shares(80, std::vector<double>{0, 0}), (std::vector<double>{0, 0}));
  EXPECT_TRUE(Shares(80, std::vector<double>{}).empty());
}

}  // namespace
}  // namespace cosformer::reproduce
