// Numbers for people: three digits, the right prefix, no carry left over.
#include "report/units.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cosformer::report {
namespace {

TEST(UnitsTest, SecondsTakeThePrefixThatLeavesThreeDigits) {
  EXPECT_EQ(FormatSeconds(1.234), "1.23 s");
  EXPECT_EQ(FormatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(FormatSeconds(123.4e-6), "123 µs");
  EXPECT_EQ(FormatSeconds(5e-9), "5.00 ns");
  EXPECT_EQ(FormatSeconds(4321), "4321 s");
  EXPECT_EQ(FormatSeconds(0), "0.00 s");
}

TEST(UnitsTest, RoundingCarriesIntoTheNextPrefix) {
  EXPECT_EQ(FormatSeconds(999.9e-6), "1.00 ms");
  EXPECT_EQ(FormatSeconds(999.4e-6), "999 µs");
  EXPECT_EQ(FormatCount(999'999), "1.00 M");
  EXPECT_EQ(FormatBytes(1024 * 1024 - 1), "1.0 MiB");
}

TEST(UnitsTest, DurationsHaveTwoUnits) {
  EXPECT_EQ(FormatDuration(0), "0 s");
  EXPECT_EQ(FormatDuration(45.2), "45 s");
  EXPECT_EQ(FormatDuration(130), "2 min 10 s");
  EXPECT_EQ(FormatDuration(125), "2 min 05 s");
  EXPECT_EQ(FormatDuration(3900), "1 h 05 min");
  EXPECT_EQ(FormatDuration(76 * 3600), "3 d 04 h");
  EXPECT_EQ(FormatDuration(-130), "-2 min 10 s");
  EXPECT_EQ(FormatDuration(1e300), FormatDuration(1e15));
  EXPECT_EQ(FormatDuration(HUGE_VAL), "? s");
}

TEST(UnitsTest, DurationsCarryIntoTheNextUnit) {
  EXPECT_EQ(FormatDuration(59.4), "59 s");
  EXPECT_EQ(FormatDuration(59.6), "1 min 00 s");
  EXPECT_EQ(FormatDuration(3599.6), "1 h 00 min");
  EXPECT_EQ(FormatDuration(2 * 3600 - 20), "2 h 00 min");
  EXPECT_EQ(FormatDuration(86399), "1 d 00 h");
}

TEST(UnitsTest, CountsRatiosAndBytes) {
  EXPECT_EQ(FormatCount(950), "950");
  EXPECT_EQ(FormatCount(1'234'567), "1.23 M");
  EXPECT_EQ(FormatRatio(1.234), "1.23 ×");
  EXPECT_EQ(FormatRatio(1234.5), "1234 ×");
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(12.5 * 1024 * 1024), "12.5 MiB");
}

TEST(UnitsTest, IntegersAreGroupedInThousands) {
  EXPECT_EQ(FormatInteger(0), "0");
  EXPECT_EQ(FormatInteger(999), "999");
  EXPECT_EQ(FormatInteger(1000), "1,000");
  EXPECT_EQ(FormatInteger(-123456), "-123,456");
  EXPECT_EQ(FormatInteger(1234567), "1,234,567");
}

TEST(UnitsTest, SiPrefixesWithoutTrailingZeros) {
  EXPECT_EQ(FormatSi(0.02, "s"), "20 ms");
  EXPECT_EQ(FormatSi(1e-6, "s"), "1 µs");
  EXPECT_EQ(FormatSi(0, "s"), "0 s");
  EXPECT_EQ(FormatSi(-2500, "B"), "-2.5 kB");
}

}  // namespace
}  // namespace cosformer::report
