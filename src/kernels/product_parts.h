// Products cut into what each kind of weights does in its own file: columns of y, for one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/products.h"

namespace cosformer {

// Rows are multiplied in parts of so many numbers, where several blocks of x meet them; rows of x
// are rounded in such parts.
inline constexpr size_t kDepth = 512;

struct Problem {
  const float* x;
  size_t x_stride;
  size_t rows;
  Weights weights;
  const float* bias;
  float* y;
  size_t y_stride;
};

// Rows of x in 16-bit integers, which weights in integers are multiplied with: x = scale * q, with
// a scale for every part of a row. NaN or infinity makes the scale of its part NaN.
struct RoundedRows {
  const int16_t* q;     // [parts, rows, kDepth], zeros past the end of a row, aligned to a vector
  const float* scales;  // [parts, rows]
};

// Writes rows begin to end - 1 of p.x to q and scales, laid out as above.
void RoundRows(const Problem& p, size_t begin, size_t end, int16_t* q, float* scales);

// Columns begin to end - 1 of y. Those after them up to last - 1 will probably follow, and are
// fetched.
void MultiplyFloats(const Problem& p, size_t begin, size_t end, size_t last);
void MultiplyIntegers(const Problem& p, const RoundedRows& x, size_t begin, size_t end,
                      size_t last);

// Columns that are best multiplied at a time with so many rows of x; of floats, whole panels.
size_t FloatPiece(size_t rows);
size_t IntegerPiece(size_t rows);

// Row `row` as numbers.
void ReadIntegers(const Weights& weights, size_t row, float* to);

}  // namespace cosformer
