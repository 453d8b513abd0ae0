// Rotary position embedding of rows, compiled once an instruction set; and its table.

#include "kernels/rotary.h"

#include <cassert>
#include <cmath>

#include "kernels/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotary.cc"
#include "hwy/foreach_target.h"

// After foreach_target.h.
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// The heads of one position, all turned by the same angles.
void RunRotary(const float* x, int64_t x_stride, int64_t heads, int64_t half, const float* cosines,
               const float* sines, bool inverse, float* y, int64_t y_stride) {
  for (int64_t h = 0; h < heads; ++h, x += x_stride, y += y_stride) {
    ForVectors(static_cast<size_t>(half), [&](size_t c, auto some) HWY_ATTR {
      const VF a = LoadSome(x + c, some);
      const VF b = LoadSome(x + half + c, some);
      const VF cosine = LoadSome(cosines + c, some);
      VF sine = LoadSome(sines + c, some);
      if (inverse) sine = hn::Neg(sine);
      StoreSome(hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), y + c, some);
      StoreSome(hn::MulAdd(a, sine, hn::Mul(b, cosine)), y + half + c, some);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cosformer {

HWY_EXPORT(RunRotary);

RotaryTable::RotaryTable(int64_t length, int64_t dim, double base, int64_t first_position,
                         const int64_t* positions, int threads)
    : length_(length), dim_(dim), angles_(static_cast<size_t>(length * dim)) {
  assert(length >= 0 && dim >= 2 && dim % 2 == 0 && base > 0);
  const int64_t half = dim / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  for (int64_t c = 0; c < half; ++c) {
    frequencies[static_cast<size_t>(c)] =
        std::pow(base, -2.0 * static_cast<double>(c) / static_cast<double>(dim));
  }
  // A cosine takes as long as moving some 256 bytes.
  const int64_t bytes = length * dim * 256;
  ForBlocks(length, RowsPerBlock(dim * 64), bytes, threads, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double position =
          static_cast<double>(positions == nullptr ? first_position + row : positions[row]);
      float* cosines = angles_.data() + row * dim;
      for (int64_t c = 0; c < half; ++c) {
        const double angle = position * frequencies[static_cast<size_t>(c)];
        cosines[c] = static_cast<float>(std::cos(angle));
        cosines[half + c] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void RotaryTurn(const RotaryTable& table, const float* x, const RotaryStrides& x_strides,
                int64_t batch, int64_t length, int64_t heads, bool inverse, float* y,
                const RotaryStrides& y_strides, int64_t table_row, int threads) {
  assert(batch >= 0 && length >= 0 && heads >= 0);
  assert(table_row >= 0 && table_row + length <= table.length());
  const int64_t dim = table.dim();
  const int64_t row = heads * dim;
  ForBlocks(batch * length, RowsPerBlock(row), batch * length * row * 8, threads,
            [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) {
                const int64_t b = i / length;
                const int64_t t = i % length;
                HWY_DYNAMIC_DISPATCH(RunRotary)
                (x + b * x_strides.batch + t * x_strides.length, x_strides.head, heads, dim / 2,
                 table.Cosines(table_row + t), table.Sines(table_row + t), inverse,
                 y + b * y_strides.batch + t * y_strides.length, y_strides.head);
              }
            });
}

}  // namespace cosformer
#endif  // HWY_ONCE
