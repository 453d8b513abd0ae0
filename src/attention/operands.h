// Views as the kernels take them: the rows of one head of a sequence.
#pragma once

#include "attention/checks.h"
#include "attention/linear_kernels.h"

namespace cosformer {

// In order or, for sweeps that run against time, reversed.
struct Rows {
  int64_t begin = 0;
  int64_t count = 0;
  bool reversed = false;

  int64_t First() const { return begin + (reversed && count > 0 ? count - 1 : 0); }
  int64_t Stride(int64_t stride) const { return reversed ? -stride : stride; }
};

inline Operand OperandOf(const ConstView& view, int64_t batch, int64_t head, const Rows& rows) {
  Operand op;
  op.data = RowAt(view, batch, rows.First(), head);
  op.dtype = view.dtype;
  op.stride = rows.Stride(view.length_stride);
  op.dim = view.dim;
  return op;
}

inline Operand FeaturesOf(const ConstView& view, int64_t batch, int64_t head, const Rows& rows,
                          const LinearKernel& kernel) {
  Operand op = OperandOf(view, batch, head, rows);
  op.map = kernel.feature_map;
  op.leaky_slope = kernel.leaky_slope;
  return op;
}

inline Output OutputOf(const View& view, int64_t batch, int64_t head, const Rows& rows) {
  Output out;
  out.data = RowAt(view, batch, rows.First(), head);
  out.dtype = view.dtype;
  out.stride = rows.Stride(view.length_stride);
  out.dim = view.dim;
  return out;
}

}  // namespace cosformer
