// Products of rows with a matrix of weights, y = x W^T + bias, for weights in float32, bfloat16,
// int8 and int4: what a trained model does with nearly all of its time.
//
// Weights are read as they lie, a row an output; nothing is packed beforehand. Every dot product is
// summed in one order, whatever the number of rows, of threads, or the part of the matrix that is
// asked for: a token's results are the same to the bit alone, in a batch, or in a prompt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cosformer {

enum class WeightType : uint8_t { kFloat32, kBFloat16, kInt8, kInt4 };

// Weights that share a scale: neighbours in a row.
constexpr int64_t WeightGroup(WeightType type) {
  return type == WeightType::kInt8 ? 64 : type == WeightType::kInt4 ? 32 : 1;
}

// Bytes of a row without its scales. Rows of integers are whole groups; the weights past `columns`
// are 0.
constexpr int64_t WeightRowBytes(WeightType type, int64_t columns) {
  switch (type) {
    case WeightType::kFloat32:
      return columns * 4;
    case WeightType::kBFloat16:
      return columns * 2;
    case WeightType::kInt8:
      return (columns + 63) / 64 * 64;
    case WeightType::kInt4:
      return (columns + 31) / 32 * 16;
  }
  return 0;
}

// Scales of a row; 0 where the type has none.
constexpr int64_t WeightRowScales(WeightType type, int64_t columns) {
  const int64_t group = WeightGroup(type);
  return group == 1 ? 0 : (columns + group - 1) / group;
}

// A matrix of weights. It owns nothing.
//   int8   w = scale * q, q from -127 to 127
//   int4   w = scale * (q - 8), q from 0 to 15; of a group's 16 bytes, byte i holds weight i in its
//          low half and weight i + 16 in its high half
struct Weights {
  WeightType type = WeightType::kFloat32;
  int64_t rows = 0;               // outputs
  int64_t columns = 0;            // inputs
  const void* data = nullptr;     // [rows, WeightRowBytes()], aligned to its elements
  const float* scales = nullptr;  // [rows, WeightRowScales()]

  // Of the matrix, scales included.
  int64_t bytes() const {
    return rows * (WeightRowBytes(type, columns) +
                   WeightRowScales(type, columns) * static_cast<int64_t>(sizeof(float)));
  }
};

// y = x W^T + bias.
//   x     [rows, columns of W], rows x_stride floats apart
//   bias  [rows of W], or null
//   y     [rows, rows of W], rows y_stride floats apart; must not overlap x
// threads: 0 for as many as OpenMP gives.
void Multiply(const float* x, int64_t x_stride, int64_t rows, const Weights& weights,
              const float* bias, float* y, int64_t y_stride, int threads = 0);

// Row `row` as numbers: [columns].
void ReadWeights(const Weights& weights, int64_t row, float* to);

// Writes one row in the given type, rounded to nearest: `data` and `scales` are where the row
// begins. A group's scale is such that its largest weight keeps its size to the last bit but one.
// Expects finite weights.
void WriteWeights(WeightType type, const float* from, int64_t columns, void* data, float* scales);

}  // namespace cosformer
