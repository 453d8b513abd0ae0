// Means by distance, over maps that can be counted by hand.
#include "report/distance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "contains.h"

namespace cosformer::report {
namespace {

using cosformer::testing::Contains;
using cosformer::testing::MessageOf;

constexpr float kNanWeight = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfiniteWeight = std::numeric_limits<float>::infinity();

TEST(DistanceTest, BothSidesOfTheDiagonalCount) {
  const std::vector<float> values = {1, 2, 3,  //
                                     4, 5, 6,  //
                                     7, 8, 10};
  const std::vector<double> expected = {16.0 / 3, 5, 5};
  EXPECT_EQ(MassByDistance(values, 3, 3), expected);
}

TEST(DistanceTest, MaskedCellsAreLeftOutOfTheMean) {
  const std::vector<float> values = {1,     kNanWeight, kNanWeight,  //
                                     0.5f,  0.5f,       kNanWeight,  //
                                     0.25f, 0.5f,       0.25f};
  const std::vector<double> expected = {1.75 / 3, 0.5, 0.25};
  EXPECT_EQ(MassByDistance(values, 3, 3), expected);
}

TEST(DistanceTest, ADistanceWithoutACellIsNotANumber) {
  const std::vector<double> means =
      MassByDistance(std::vector<float>{1, kNanWeight, kNanWeight, 3}, 2, 2);
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[0], 2);
  EXPECT_TRUE(std::isnan(means[1]));
}

TEST(DistanceTest, TheLongerSideGivesTheDistances) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(MassByDistance(values, 1, 6), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(MassByDistance(values, 6, 1), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  // | 1 2 3 |
  // | 4 5 6 |
  EXPECT_EQ(MassByDistance(values, 2, 3), (std::vector<double>{3, 4, 3}));
}

TEST(DistanceTest, AMapThatIsNoMapIsAnError) {
  const std::vector<float> values = {1, 2, 3, 4, 5, kInfiniteWeight};
  const auto message = [&](int64_t rows, int64_t columns) {
    return MessageOf([&] { MassByDistance(values, rows, columns); });
  };
  EXPECT_TRUE(Contains(message(0, 6), "0 rows"));
  EXPECT_TRUE(Contains(message(2, 2), "6 values for 2 rows and 2 columns"));
  EXPECT_TRUE(Contains(message(2, 3), "inf at row 1, column 2"));
}

}  // namespace
}  // namespace cosformer::report
