// Weights of every type, written and read, packed and unpacked.
#include "kernels/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "matrix.h"
#include "support.h"

namespace cosformer::testing {
namespace {

class WeightsOnTargets : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(, WeightsOnTargets, AllTargets(), TargetOf);

TEST_P(WeightsOnTargets, AreReadInEveryTypeAndWidth) {
  for (const WeightType type : kTypes) {
    for (const int64_t columns : Widths()) {
      const std::vector<float> from = Normal(2 * columns, static_cast<uint64_t>(columns));
      const Matrix matrix(type, 2, columns, from);
      for (int64_t row = 0; row < 2; ++row) {
        Buffer to(columns);
        ReadWeights(matrix.view(), row, to.data());
        const int64_t group = WeightGroup(type);
        for (int64_t c = 0; c < columns; ++c) {
          double most = 0;
          for (int64_t i = c / group * group; i < std::min(columns, (c / group + 1) * group); ++i) {
            most = std::max(
                most, std::abs(static_cast<double>(from[static_cast<size_t>(row * columns + i)])));
          }
          // Half a step, and the roundings of scale and product.
          const double bound = type == WeightType::kFloat32    ? 0
                               : type == WeightType::kBFloat16 ? most * 0x1p-8
                               : type == WeightType::kInt8     ? most * (0.5 / 127 + 3 * kUnit)
                                                               : most * (0.5 / 7 + 3 * kUnit);
          ASSERT_LE(std::abs(static_cast<double>(to[static_cast<size_t>(c)]) -
                             static_cast<double>(from[static_cast<size_t>(row * columns + c)])),
                    bound)
              << "type " << static_cast<int>(type) << ", column " << c << " of " << columns;
        }
      }
    }
  }
}

// As files have them, in any cut, from memory that is not aligned, and back.
TEST(Weights, ArePackedAndUnpackedInWholeOrInPart) {
  for (const WeightType type : kTypes) {
    for (const int64_t rows : {1, 15, 16, 17, 50}) {
      for (const int64_t columns : {1, 7, 32, 70}) {
        const Matrix matrix(type, rows, columns, static_cast<uint64_t>(rows + columns));
        const Weights& w = matrix.view();
        const auto bytes = static_cast<size_t>(rows * WeightRowBytes(type, columns));
        std::vector<std::byte> file(bytes + 1);
        std::byte* from = file.data() + 1;
        UnpackWeights(w, 0, static_cast<int64_t>(bytes), from);
        if (WeightGroup(type) == 1) {
          for (int64_t row = 0; row < rows; ++row) {
            for (int64_t c = 0; c < columns; ++c) {
              const int64_t at = row * columns + c;
              float number = 0;
              if (type == WeightType::kFloat32) {
                std::memcpy(&number, from + at * 4, 4);
              } else {
                std::memcpy(reinterpret_cast<char*>(&number) + 2, from + at * 2, 2);
              }
              ASSERT_EQ(number, matrix.Row(row)[static_cast<size_t>(c)]) << row << ", " << c;
            }
          }
        }
        for (const int64_t at_once : {kWeightPanel, 2 * kWeightPanel, 4 * kWeightPanel}) {
          std::vector<std::byte> data(matrix.data().size(), std::byte{0xff});
          for (int64_t begin = 0; begin < rows; begin += at_once) {
            PackWeights(w, begin, std::min(begin + at_once, rows), from, data.data());
          }
          ASSERT_TRUE(std::ranges::equal(data, matrix.data()))
              << "type " << static_cast<int>(type) << ", " << rows << " x " << columns;
        }
        for (size_t begin = 0; begin < bytes; begin += 13) {
          const size_t end = std::min(begin + 13, bytes);
          std::vector<std::byte> part(end - begin);
          UnpackWeights(w, static_cast<int64_t>(begin), static_cast<int64_t>(end), part.data());
          ASSERT_TRUE(std::equal(part.begin(), part.end(), from + begin));
        }
      }
    }
  }
}

TEST(Weights, HaveZerosInTheirLastPanelWhereThereAreNoRows) {
  for (const WeightType type : {WeightType::kFloat32, WeightType::kBFloat16}) {
    const int64_t rows = 19, columns = 5;
    const Matrix matrix(type, rows, columns, 1);
    const size_t size = type == WeightType::kFloat32 ? 4 : 2;
    for (int64_t row = rows; row < 2 * kWeightPanel; ++row) {
      for (int64_t k = 0; k < columns; ++k) {
        const auto at = static_cast<size_t>(FloatWeightAt(matrix.view(), row, k)) * size;
        for (size_t i = 0; i < size; ++i) EXPECT_EQ(matrix.data()[at + i], std::byte{0});
      }
    }
  }
}

TEST(Weights, InBFloat16AreRoundedToTheNearestAndTiesToEven) {
  const std::vector<float> from = {1.0f, 0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -0x1.01p0f};
  const std::vector<float> expected = {1.0f, 1.0f, 0x1.04p0f, 0x1.02p0f, -1.0f};
  const Matrix matrix(WeightType::kBFloat16, 1, 5, from);
  EXPECT_EQ(matrix.Row(0), expected);
}

TEST(Weights, OfZerosAndOfTinyNumbersStayFinite) {
  for (const WeightType type : kTypes) {
    for (const float value : {0.0f, 1e-45f, -1e-38f, 3e38f}) {
      const Matrix matrix(type, 1, 40, std::vector<float>(40, value));
      for (const float read : matrix.Row(0)) {
        ASSERT_TRUE(std::isfinite(read));
        ASSERT_LE(std::abs(read), std::abs(value) * 1.01f);
      }
    }
  }
}

}  // namespace
}  // namespace cosformer::testing
