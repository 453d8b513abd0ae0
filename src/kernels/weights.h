// Matrices of weights in float32, bfloat16, int8 and int4: how they lie in memory and in files, and
// the ways between.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cosformer {

enum class WeightType : uint8_t { kFloat32, kBFloat16, kInt8, kInt4 };

// Weights that share a scale: neighbours in a row.
constexpr int64_t WeightGroup(WeightType type) {
  return type == WeightType::kInt8 ? 64 : type == WeightType::kInt4 ? 32 : 1;
}

// Bytes of a row in a file, without its scales. Rows of integers are whole groups; the weights past
// `columns` are 0.
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

// How floats lie in memory: rows in panels of so many, the numbers of a column side by side,
//   [rows / kWeightPanel][columns][kWeightPanel]
// so that products take what they need as vectors, and one row of x reads the matrix from its first
// byte to its last. The last panel has zeros where there are no rows. Integers lie row by row, as
// in a file.
inline constexpr int64_t kWeightPanel = 16;

// A matrix of weights. It owns nothing.
//   int8   w = scale * q, q from -127 to 127
//   int4   w = scale * (q - 8), q from 0 to 15; of a group's 16 bytes, byte i holds weight i in its
//          low half and weight i + 16 in its high half
struct Weights {
  WeightType type = WeightType::kFloat32;
  int64_t rows = 0;               // outputs
  int64_t columns = 0;            // inputs
  const void* data = nullptr;     // data_bytes(), aligned to its elements
  const float* scales = nullptr;  // [rows, WeightRowScales()]

  // Of `data`.
  int64_t data_bytes() const {
    const int64_t panels = (rows + kWeightPanel - 1) / kWeightPanel;
    return (WeightGroup(type) > 1 ? rows : panels * kWeightPanel) * WeightRowBytes(type, columns);
  }
  // Of the matrix in memory, scales included.
  int64_t bytes() const {
    return data_bytes() +
           rows * WeightRowScales(type, columns) * static_cast<int64_t>(sizeof(float));
  }
};

// The place of number k of row `row`, of floats.
inline int64_t FloatWeightAt(const Weights& w, int64_t row, int64_t k) {
  return (row / kWeightPanel * w.columns + k) * kWeightPanel + row % kWeightPanel;
}

// Row `row` as numbers: [columns].
void ReadWeights(const Weights& weights, int64_t row, float* to);

// Writes row `row` of a matrix of this type and size, rounded to nearest; `data` and `scales` are
// where the matrix begins. A group's scale is such that its largest weight keeps its size to the
// last bit but one. Expects finite weights.
void WriteWeights(const Weights& weights, int64_t row, const float* from, void* data,
                  float* scales);

// From rows as a file has them, [rows, WeightRowBytes()], to `data` of a matrix of this type and
// size: rows `begin` to `end` - 1, whole panels of them. The file's need not be aligned.
void PackWeights(const Weights& weights, int64_t begin, int64_t end, const void* file, void* data);

// Bytes `begin` to `end` - 1 of the matrix as a file has it.
void UnpackWeights(const Weights& weights, int64_t begin, int64_t end, void* to);

}  // namespace cosformer
