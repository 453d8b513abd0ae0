// Products with weights of every type against sums in double, and the promise that a dot product is
// the same to the bit wherever it is computed.
#include "kernels/products.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "matrix.h"
#include "support.h"

namespace cosformer::testing {
namespace {

// What rounding x to 16 bits may change in each of its numbers, where weights are integers: half a
// step, which is a part's largest number / 32767. A little more for the rounding of that quotient.
std::vector<double> RoundingOf(const std::vector<float>& x, int64_t columns, WeightType type) {
  std::vector<double> rounding(x.size(), 0.0);
  if (WeightGroup(type) == 1) return rounding;
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(columns)) {
    for (size_t part = row; part < row + static_cast<size_t>(columns); part += 512) {
      const size_t end = std::min(part + 512, row + static_cast<size_t>(columns));
      double most = 0;
      for (size_t k = part; k < end; ++k) most = std::max(most, std::abs(double{x[k]}));
      for (size_t k = part; k < end; ++k) rounding[k] = most * (0.5 / 32767 + 2 * kUnit);
    }
  }
  return rounding;
}

std::vector<Expected> Reference(const std::vector<float>& x, int64_t rows, const Matrix& matrix,
                                const std::vector<float>& bias) {
  const int64_t columns = matrix.view().columns;
  const std::vector<double> rounded = RoundingOf(x, columns, matrix.view().type);
  std::vector<Expected> y(static_cast<size_t>(rows * matrix.view().rows));
  for (int64_t n = 0; n < matrix.view().rows; ++n) {
    const std::vector<float> w = matrix.Row(n);
    for (int64_t m = 0; m < rows; ++m) {
      double sum = bias.empty() ? 0 : static_cast<double>(bias[static_cast<size_t>(n)]);
      double size = std::abs(sum), rounding = 0;
      for (int64_t k = 0; k < columns; ++k) {
        const auto weight = static_cast<double>(w[static_cast<size_t>(k)]);
        const double term = static_cast<double>(x[static_cast<size_t>(m * columns + k)]) * weight;
        sum += term;
        size += std::abs(term);
        rounding += rounded[static_cast<size_t>(m * columns + k)] * std::abs(weight);
      }
      // All of a step, 512 numbers at most, is added one after the other; then lanes, steps of 128
      // at least, and the bias.
      const double chain = static_cast<double>(std::min<int64_t>(columns, 512)) + 6 +
                           static_cast<double>(columns) / 128;
      y[static_cast<size_t>(m * matrix.view().rows + n)] = {sum, chain * kUnit * size + rounding};
    }
  }
  return y;
}

class Products : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(, Products, AllTargets(), TargetOf);

TEST_P(Products, EqualTheirDefinitionAtEverySizeAndType) {
  std::mt19937_64 random(1);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int round = 0; round < (kSanitized ? 60 : 240); ++round) {
    const WeightType type = kTypes[round % 4];
    const bool deep = draw(0, 3) == 0;
    const int64_t rows = draw(0, 9) == 0 ? draw(41, 210) : draw(1, deep ? 15 : 40);
    const int64_t outputs = draw(1, deep ? 21 : 150);
    int64_t columns = deep ? draw(500, 1700) : draw(1, 150);
    if (draw(0, 1) == 0) columns = (columns + 15) / 16 * 16;
    const Matrix matrix(type, outputs, columns, static_cast<uint64_t>(round));
    const std::vector<float> x = Normal(rows * columns, 1000 + static_cast<uint64_t>(round));
    const std::vector<float> bias = draw(0, 1) == 0 ? std::vector<float>() : Normal(outputs, 7);
    Buffer from(x, static_cast<size_t>(draw(0, 15)));
    Buffer y(rows * outputs, static_cast<size_t>(draw(0, 15)));
    Multiply(from.data(), columns, rows, matrix.view(), bias.empty() ? nullptr : bias.data(),
             y.data(), outputs, static_cast<int>(draw(1, 3)));
    SCOPED_TRACE(::testing::Message() << "type " << static_cast<int>(type) << ", " << rows << " x "
                                      << columns << " x " << outputs);
    ASSERT_NO_FATAL_FAILURE(ExpectClose(y.values(), Reference(x, rows, matrix, bias), "y"));
  }
}

void ExpectTheSameBitsForAnyRowsAndThreads(int64_t columns, bool with_bias) {
  for (const WeightType type : kTypes) {
    // Work for several threads even with one row, rows that threads lay out together, and more of
    // them than are in a block.
    const int64_t rows = 101, outputs = kSanitized ? 70 : 619;
    const Matrix matrix(type, outputs, columns, 3);
    const std::vector<float> x = Normal(rows * columns, 4);
    const std::vector<float> some = Normal(outputs, 5);
    const float* bias = with_bias ? some.data() : nullptr;
    Buffer whole(rows * outputs);
    Multiply(x.data(), columns, rows, matrix.view(), bias, whole.data(), outputs, 1);
    for (const int64_t count : kSanitized
                                   ? std::vector<int64_t>{1, 35, 97}
                                   : std::vector<int64_t>{1, 2, 3, 4, 5, 7, 13, 32, 33, 97, 101}) {
      for (const int threads : {1, 3}) {
        Buffer part(rows * outputs);
        for (int64_t row = 0; row < rows; row += count) {
          Multiply(x.data() + row * columns, columns, std::min(count, rows - row), matrix.view(),
                   bias, part.data() + row * outputs, outputs, threads);
        }
        ASSERT_TRUE(SameBits(part.values(), whole.values()))
            << "type " << static_cast<int>(type) << ", " << count << " rows at a time, " << threads
            << " threads";
      }
    }
  }
}

TEST_P(Products, AreTheSameToTheBitForAnyRowsAndThreads) {
  ExpectTheSameBitsForAnyRowsAndThreads(1103, true);
}

TEST_P(Products, AreTheSameToTheBitForAnyRowsAndThreadsWithoutABias) {
  ExpectTheSameBitsForAnyRowsAndThreads(1100, false);
}

TEST_P(Products, AreTheSameToTheBitInWholeSteps) {
  ExpectTheSameBitsForAnyRowsAndThreads(512, true);
}

TEST_P(Products, LeaveWhatLiesBetweenTheRowsAlone) {
  // Whole tiles and a rest; with 100 rows, work for three threads.
  const int64_t outputs = 74, y_stride = 77;
  for (int i = 0; i < 16; ++i) {
    const WeightType type = kTypes[i % 4];
    const int64_t columns = i < 8 ? 33 : 600;  // one step, and several
    const int64_t x_stride = columns + (i % 8 < 4 ? 27 : 479);
    const Matrix matrix(type, outputs, columns, 1);
    for (const int64_t rows : {1, 2, 3, 9, 100}) {
      std::vector<float> x = Normal(rows * columns, 2);
      std::vector<float> spread(static_cast<size_t>(rows * x_stride), kNaN);
      for (int64_t row = 0; row < rows; ++row) {
        std::copy_n(x.begin() + row * columns, columns, spread.begin() + row * x_stride);
      }
      std::vector<float> y(static_cast<size_t>(rows * y_stride), 77.0f), dense;
      Multiply(spread.data(), x_stride, rows, matrix.view(), nullptr, y.data(), y_stride,
               i % 3 + 1);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t c = 0; c < y_stride; ++c) {
          const float value = y[static_cast<size_t>(row * y_stride + c)];
          if (c < outputs) {
            dense.push_back(value);
          } else {
            EXPECT_EQ(value, 77.0f);
          }
        }
      }
      ASSERT_NO_FATAL_FAILURE(ExpectClose(dense, Reference(x, rows, matrix, {}), "y"))
          << "type " << static_cast<int>(type) << ", " << rows << " rows";
    }
  }
}

// Whoever calls may have threads of their own, and no barrier of theirs must be met; those that are
// asked for are not to be had then.
TEST_P(Products, AreComputedOnOneOfTheCallersThreads) {
  const int64_t rows = 40, outputs = 40, columns = 600;
  const std::vector<float> x = Normal(rows * columns, 4);
  for (int i = 0; i < 8; ++i) {
    const WeightType type = kTypes[i % 4];
    const int threads = i < 4 ? 1 : 3;
    const Matrix matrix(type, outputs, columns, 3);
    Buffer y(rows * outputs);
    std::atomic<int> after = 0;
#pragma omp parallel num_threads(2)
    {
      if (omp_get_thread_num() == 0) {
        Multiply(x.data(), columns, rows, matrix.view(), nullptr, y.data(), outputs, threads);
      }
#pragma omp barrier
      ++after;
    }
    EXPECT_EQ(after, 2);
    ASSERT_NO_FATAL_FAILURE(ExpectClose(y.values(), Reference(x, rows, matrix, {}), "y"));
  }
}

// Some rows of W in another place, and more rows of x than are laid out at a time.
TEST_P(Products, AreTheSameForAPartOfTheMatrix) {
  const int64_t rows = 1030, outputs = 70, columns = 40;
  const std::vector<float> x = Normal(rows * columns, 4), w = Normal(outputs * columns, 3);
  for (const WeightType type : kTypes) {
    const Matrix matrix(type, outputs, columns, w);
    Buffer whole(rows * outputs);
    Multiply(x.data(), columns, rows, matrix.view(), nullptr, whole.data(), outputs, 2);
    const Matrix some(type, 21, columns, std::vector<float>(w.begin() + 13 * columns, w.end()));
    const Weights& part = some.view();
    for (const int64_t count : {int64_t{1}, rows}) {
      Buffer y(count * part.rows);
      const int64_t first = rows - count;
      Multiply(x.data() + first * columns, columns, count, part, nullptr, y.data(), part.rows, 1);
      for (int64_t m = 0; m < count; ++m) {
        for (int64_t n = 0; n < part.rows; ++n) {
          ASSERT_EQ(y.values()[static_cast<size_t>(m * part.rows + n)],
                    whole.values()[static_cast<size_t>((first + m) * outputs + 13 + n)])
              << "type " << static_cast<int>(type) << ", row " << first + m << ", output " << n;
        }
      }
    }
  }
}

// Of a file that nobody wrote with WriteWeights(): -128, and weights past the last column.
TEST_P(Products, TakeAnyBytesForIntegers) {
  const int64_t outputs = 9, columns = 70;
  for (const WeightType type : {WeightType::kInt8, WeightType::kInt4}) {
    const auto row_bytes = static_cast<size_t>(WeightRowBytes(type, columns));
    const std::vector<uint8_t> bytes(static_cast<size_t>(outputs) * row_bytes,
                                     type == WeightType::kInt8 ? 0x80 : 0x00);
    const std::vector<float> scales(static_cast<size_t>(outputs * WeightRowScales(type, columns)),
                                    0.5f);
    const Weights weights = {type, outputs, columns, bytes.data(), scales.data()};
    for (const int64_t rows : {1, 2, 3, 9}) {
      const std::vector<float> x(static_cast<size_t>(rows * columns), -3.0f);
      Buffer y(rows * outputs);
      Multiply(x.data(), columns, rows, weights, nullptr, y.data(), outputs, 1);
      const double exact = 3.0 * 0.5 * (type == WeightType::kInt8 ? 128 : 8) * 70;
      for (const float value : y.values()) EXPECT_NEAR(value, exact, exact * 1e-6);
    }
  }
}

TEST_P(Products, KeepNaNInItsOwnRowOfXOrW) {
  const int64_t rows = 8, outputs = 9, columns = 70;
  std::vector<float> w = Normal(outputs * columns, 1), x = Normal(rows * columns, 2);
  w[4 * columns + 69] = kNaN;
  x[6 * columns + 1] = kNaN;
  const Matrix matrix(WeightType::kFloat32, outputs, columns, w);
  std::vector<float> y(static_cast<size_t>(rows * outputs));
  Multiply(x.data(), columns, rows, matrix.view(), nullptr, y.data(), outputs, 1);
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < outputs; ++n) {
      EXPECT_EQ(std::isnan(y[static_cast<size_t>(m * outputs + n)]), m == 6 || n == 4);
    }
  }
}

TEST_P(Products, KeepWhatIsNotFiniteInItsOwnRowOfXWithIntegers) {
  const int64_t rows = 8, outputs = 9, columns = 600;
  std::vector<float> x = Normal(rows * columns, 2);
  x[2 * columns + 599] = kNaN;
  x[6 * columns + 1] = std::numeric_limits<float>::infinity();
  for (const WeightType type : {WeightType::kInt8, WeightType::kInt4}) {
    const Matrix matrix(type, outputs, columns, 1);
    for (const int64_t count : {1, 2, 4, 8}) {
      Buffer y(rows * outputs);
      for (int64_t row = 0; row < rows; row += count) {
        Multiply(x.data() + row * columns, columns, count, matrix.view(), nullptr,
                 y.data() + row * outputs, outputs, 1);
      }
      for (int64_t i = 0; i < rows * outputs; ++i) {
        const int64_t row = i / outputs;
        EXPECT_EQ(std::isfinite(y.values()[static_cast<size_t>(i)]), row != 2 && row != 6)
            << "row " << row << ", " << count << " at a time";
      }
    }
  }
}

// Rows whose numbers are all 0, tiny, large, or of very different size from part to part.
TEST_P(Products, WithIntegersKeepTheScaleOfX) {
  const int64_t outputs = 5, columns = 1100;
  for (const WeightType type : {WeightType::kInt8, WeightType::kInt4}) {
    const Matrix matrix(type, outputs, columns, 1);
    for (const float scale : {0.0f, 1e-42f, 1e-20f, 1e30f}) {
      std::vector<float> x = Normal(columns, 2);
      for (float& v : x) v *= scale;
      for (size_t k = 0; k < 512; ++k) x[k] *= 1e-4f;
      Buffer y(outputs);
      Multiply(x.data(), columns, 1, matrix.view(), nullptr, y.data(), outputs, 1);
      std::vector<Expected> expected = Reference(x, 1, matrix, {});
      // What is smaller than 1e-30 counts as 0.
      for (Expected& e : expected) e.tolerance += 1e-30 * 10 * static_cast<double>(columns);
      ASSERT_NO_FATAL_FAILURE(ExpectClose(y.values(), expected, "y")) << scale;
    }
  }
}

}  // namespace
}  // namespace cosformer::testing
