// The numbers that the benchmark works on.
#include "bench/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <utility>

namespace cosformer::bench {
namespace {

TEST(TensorTest, RandomNumbersDependOnTheSeedAlone) {
  Tensor a(DType::kFloat32, 2, 5, 3, 7), b(DType::kFloat32, 2, 5, 3, 7);
  a.FillRandom(1);
  b.FillRandom(1);
  for (int64_t i = 0; i < a.size(); ++i) EXPECT_EQ(a.At(i), b.At(i));
  b.FillRandom(2);
  int64_t equal = 0;
  for (int64_t i = 0; i < a.size(); ++i) equal += a.At(i) == b.At(i) ? 1 : 0;
  EXPECT_LT(equal, 3);
}

TEST(TensorTest, RandomNumbersHaveMeanZeroAndVarianceOne) {
  Tensor tensor(DType::kFloat32, 1, 1000, 10, 10);
  tensor.FillRandom(3);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    sum += tensor.At(i);
    squares += static_cast<double>(tensor.At(i)) * tensor.At(i);
  }
  // Five standard deviations of the estimates from 100,000 numbers.
  EXPECT_NEAR(sum / 1e5, 0, 5 / std::sqrt(1e5));
  EXPECT_NEAR(squares / 1e5, 1, 5 * std::sqrt(2 / 1e5));
}

TEST(TensorTest, OneRowIsFilledAsTheWholeWouldBe) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Tensor whole(dtype, 2, 3, 2, 4), part(dtype, 2, 3, 2, 4);
    whole.FillRandom(5);
    part.FillZero();
    part.FillRandomRow(5, 1, 2, 0);
    const int64_t begin = part.IndexOf(1, 2, 0);
    for (int64_t i = 0; i < part.size(); ++i) {
      EXPECT_EQ(part.At(i), i >= begin && i < begin + 4 ? whole.At(i) : 0);
    }
  }
}

TEST(TensorTest, RowsAreViewsOfTheSameMemory) {
  Tensor tensor(DType::kBFloat16, 2, 6, 3, 4);
  const ConstView rows = std::as_const(tensor).Rows(4, 2);
  EXPECT_EQ(rows.length, 2);
  EXPECT_EQ(
      static_cast<const std::byte*>(rows.data) - static_cast<const std::byte*>(tensor.view().data),
      tensor.IndexOf(0, 4, 0) * 2);
}

TEST(TensorTest, PoisonIsNotANumberInBothTypes) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Tensor tensor(dtype, 1, 1, 1, 3);
    tensor.FillNan();
    for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(tensor.At(i)));
  }
}

}  // namespace
}  // namespace cosformer::bench
