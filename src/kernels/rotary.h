// Rotary position embedding: the pair (c, c + dim / 2) of a row is turned by the angle
// position * base^(-2 c / dim). Turning back is the backward pass.
#pragma once

#include <cstdint>
#include <vector>

namespace cosformer {

// Cosines and sines of consecutive or given positions, computed in double. A table costs some 50 ns
// an angle, more than turning a row: keep it over the layers and steps that share it.
class RotaryTable {
 public:
  // Positions first_position ... first_position + length - 1, or positions[0 ... length - 1] where
  // `positions` is not null (packed sequences begin again at 0). dim is even.
  RotaryTable(int64_t length, int64_t dim, double base = 10000, int64_t first_position = 0,
              const int64_t* positions = nullptr, int threads = 0);

  int64_t length() const { return length_; }
  int64_t dim() const { return dim_; }
  const float* Cosines(int64_t row) const { return angles_.data() + row * dim_; }  // [dim / 2]
  const float* Sines(int64_t row) const { return Cosines(row) + dim_ / 2; }        // [dim / 2]

 private:
  int64_t length_;
  int64_t dim_;
  std::vector<float> angles_;  // [length, 2, dim / 2]: cosines, then sines
};

// Where the rows of a tensor [batch, length, heads, dim] lie: strides in floats, rows contiguous.
struct RotaryStrides {
  int64_t batch = 0;
  int64_t length = 0;
  int64_t head = 0;
};

// y = x turned by the table's angles, one row of it for each of `length` (<= table.length()), from
// row table_row on; by the angles' negatives if `inverse`. y may be x, with the same strides.
void RotaryTurn(const RotaryTable& table, const float* x, const RotaryStrides& x_strides,
                int64_t batch, int64_t length, int64_t heads, bool inverse, float* y,
                const RotaryStrides& y_strides, int64_t table_row = 0, int threads = 0);

}  // namespace cosformer
