#include "data/task.h"

#include <gtest/gtest.h>

namespace cosformer::data {
namespace {

TEST(Task, SplitsHaveNames) {
  EXPECT_EQ(Name(Split::kTrain), "train");
  EXPECT_EQ(Name(Split::kValid), "valid");
  EXPECT_EQ(Name(Split::kTest), "test");
}

}  // namespace
}  // namespace cosformer::data
