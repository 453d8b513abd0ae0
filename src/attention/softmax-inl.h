// What softmax over blocks is made of, whichever pairs it runs over: the online normalisation of a
// row of scores, and the products of weights with rows. Included once an instruction set.

#if defined(COSFORMER_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COSFORMER_SOFTMAX_INL_H
#undef COSFORMER_SOFTMAX_INL_H
#else
#define COSFORMER_SOFTMAX_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/block-inl.h"
#include "attention/softmax_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

constexpr size_t kB = kBlock;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

static HWY_INLINE size_t StepOf(int64_t dim) {
  return static_cast<size_t>(RoundUp(dim, kMaxLanes));
}

// Keeps the first `count` lanes of x, which starts at column j; the others become `other`.
static HWY_INLINE VF KeepBelow(VF x, size_t j, int64_t count, VF other) {
  const hn::RebindToSigned<DF> di;
  const auto kept =
      hn::Lt(hn::Iota(di, static_cast<int32_t>(j)), hn::Set(di, static_cast<int32_t>(count)));
  return hn::IfThenElse(hn::RebindMask(DF(), kept), x, other);
}

// Scores of one row of the tile to weights, against the row's running maximum; returns the factor
// by which what was summed before shrinks. `count` keys are attended to, `columns` computed.
static HWY_INLINE float SoftmaxRow(float* HWY_RESTRICT scores, size_t columns, int64_t count,
                                   float& maximum, float& sum) {
  const DF df;
  const VF masked = hn::Set(df, kMinusInfinity);
  const bool partial = count < static_cast<int64_t>(columns);
  VF top = hn::Set(df, maximum);
  for (size_t j = 0; j < columns; j += kLanes) {
    VF s = hn::Load(df, scores + j);
    if (partial) {
      s = KeepBelow(s, j, count, masked);
      hn::Store(s, df, scores + j);
    }
    top = hn::Max(s, top);
  }
  const float new_maximum = hn::GetLane(hn::MaxOfLanes(df, top));
  // Nothing attended so far: -inf - -inf would be NaN.
  const float shift = new_maximum == kMinusInfinity ? 0.0f : new_maximum;
  const VF shifts = hn::Set(df, shift);
  VF total = hn::Zero(df);
  for (size_t j = 0; j < columns; j += kLanes) {
    const VF p = ExpOrNaN(hn::Sub(hn::Load(df, scores + j), shifts));
    hn::Store(p, df, scores + j);
    total = hn::Add(total, p);
  }
  const float shrink = maximum == new_maximum ? 1.0f : std::exp(maximum - shift);
  maximum = new_maximum;
  sum = sum * shrink + hn::GetLane(hn::SumOfLanes(df, total));
  return shrink;
}

// results[i] = results[i] * shrink[i] + weights[i] values, for rows of the tile.
template <size_t kR, size_t kV>
static HWY_INLINE void AddWeighted(const float* weights, const float* shrink, const float* values,
                                   size_t step, size_t depth, float* HWY_RESTRICT results) {
  const DF df;
  Tile<kR, kV> tile;
  for (size_t r = 0; r < kR; ++r) {
    const VF f = hn::Set(df, shrink[r]);
    for (size_t v = 0; v < kV; ++v) {
      tile.sum[r][v] = hn::Mul(hn::Load(df, results + r * step + v * kLanes), f);
    }
  }
  tile.AddRows(weights, kB, values, step, depth);
  for (size_t r = 0; r < kR; ++r) {
    for (size_t v = 0; v < kV; ++v) {
      hn::Store(tile.sum[r][v], df, results + r * step + v * kLanes);
    }
  }
}

// to[r] += a, b a tile product; kColumns: rows of the tile are columns of a.
template <bool kColumns>
static void AddProduct(const float* a, const float* b, size_t step, size_t rows, size_t depth,
                       size_t columns, float* to, size_t to_step) {
  const DF df;
  ForColumns(0, columns, [&](size_t c, auto vectors) HWY_ATTR {
    constexpr size_t kV = vectors();
    const size_t out_step = to_step;
    for (size_t r0 = 0; r0 < rows; r0 += kRows) {
      Tile<kRows, kV> tile;
      tile.Clear();
      if (kColumns) {
        tile.AddColumns(a + r0, kB, b + c, step, depth);
      } else {
        tile.AddRows(a + r0 * kB, kB, b + c, step, depth);
      }
      float* HWY_RESTRICT at = to + r0 * out_step + c;
      const size_t valid = std::min(kRows, rows - r0);
      for (size_t r = 0; r < kRows; ++r) {
        if (r >= valid) break;
        for (size_t v = 0; v < kV; ++v) {
          float* x = at + r * out_step + v * kLanes;
          hn::StoreU(hn::Add(hn::LoadU(df, x), tile.sum[r][v]), df, x);
        }
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#endif
