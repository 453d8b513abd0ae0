// Matrices of weights that tests own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/weights.h"
#include "support.h"

namespace cosformer::testing {

inline constexpr WeightType kTypes[] = {WeightType::kFloat32, WeightType::kBFloat16,
                                        WeightType::kInt8, WeightType::kInt4};

// A matrix that is written by WriteWeights() over NaN. The bytes after the last panel or row are
// not there.
class Matrix {
 public:
  Matrix(WeightType type, int64_t rows, int64_t columns, std::vector<float> from)
      : view_{type, rows, columns, nullptr, nullptr},
        data_((static_cast<size_t>(view_.data_bytes()) + 7) / 8, ~uint64_t{0}),
        scales_(static_cast<size_t>(rows * WeightRowScales(type, columns)), kNaN) {
    view_.data = data_.data();
    view_.scales = scales_.data();
    for (int64_t row = 0; row < rows; ++row) {
      WriteWeights(view_, row, from.data() + row * columns, data_.data(), scales_.data());
    }
  }
  Matrix(WeightType type, int64_t rows, int64_t columns, uint64_t seed)
      : Matrix(type, rows, columns, Normal(rows * columns, seed)) {}

  const Weights& view() const { return view_; }
  std::vector<float> Row(int64_t row) const {
    std::vector<float> numbers(static_cast<size_t>(view_.columns));
    ReadWeights(view_, row, numbers.data());
    return numbers;
  }

  std::span<const std::byte> data() const {
    return std::as_bytes(std::span(data_)).first(static_cast<size_t>(view_.data_bytes()));
  }

 private:
  Weights view_;
  std::vector<uint64_t> data_;
  std::vector<float> scales_;
};

}  // namespace cosformer::testing
