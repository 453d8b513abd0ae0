#include "data/statistics.h"

#include <gtest/gtest.h>

#include "data/make_dataset.h"
#include "formats/folder.h"

namespace cosformer::data {
namespace {

using testing::MakeDataset;

class StatisticsTest : public cosformer::testing::FolderTest {};

TEST_F(StatisticsTest, GuessingByFrequencyIsAsGoodAsAsManyEqualTokens) {
  const auto perplexity = [&](const std::vector<int32_t>& tokens) {
    return UnigramPerplexity(MakeDataset(Path("set"), {{tokens}}));
  };
  EXPECT_NEAR(perplexity({7, 7, 7}), 1, 1e-12);
  EXPECT_NEAR(perplexity({0, 99}), 2, 1e-12);
  EXPECT_NEAR(perplexity({1, 2, 3, 4}), 4, 1e-12);
  EXPECT_NEAR(perplexity({1, 1, 2, 3}), 2.8284271247, 1e-9);  // 2^1.5
}

}  // namespace
}  // namespace cosformer::data
