// What tiles of dot products share: sums over lanes, four at a time, and their way into y. Included
// once an instruction set.

#if defined(COSFORMER_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COSFORMER_PRODUCTS_INL_H
#undef COSFORMER_PRODUCTS_INL_H
#else
#define COSFORMER_PRODUCTS_INL_H
#endif

#include <algorithm>
#include <utility>

#include "kernels/product_parts.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
struct Four {
  float s[4];
};
HWY_INLINE Four LoadFour(const float* from) { return {{from[0], from[1], from[2], from[3]}}; }
HWY_INLINE void StoreFour(const Four& x, float* to) { std::copy_n(x.s, 4, to); }
HWY_INLINE Four AddFour(const Four& a, const Four& b) {
  return {{a.s[0] + b.s[0], a.s[1] + b.s[1], a.s[2] + b.s[2], a.s[3] + b.s[3]}};
}
HWY_INLINE Four SumsOfLanes(VF a, VF b, VF c, VF d) {
  return {{hn::GetLane(a), hn::GetLane(b), hn::GetLane(c), hn::GetLane(d)}};
}
#else
using D4 = hn::FixedTag<float, 4>;
using Four = hn::Vec<D4>;
HWY_INLINE Four LoadFour(const float* from) { return hn::LoadU(D4(), from); }
HWY_INLINE void StoreFour(Four x, float* to) { hn::StoreU(x, D4(), to); }
HWY_INLINE Four AddFour(Four a, Four b) { return hn::Add(a, b); }

// The sum of a vector's blocks of four lanes.
template <class D, class V>
HWY_INLINE Four SumOfBlocks(D, V blocks) {
  if constexpr (MaxLanes(D()) == 4) {
    return blocks;
  } else {
    const hn::Half<D> half;
    return SumOfBlocks(half, hn::Add(hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks)));
  }
}

// The sums of the lanes of each, all taken in the same order.
HWY_INLINE Four SumsOfLanes(VF a, VF b, VF c, VF d) {
  const DF df;
  const auto pair = [&](VF x, VF y) HWY_ATTR {
    return hn::Add(hn::InterleaveLower(df, x, y), hn::InterleaveUpper(df, x, y));
  };
  const hn::Repartition<uint64_t, DF> d64;
  const auto low = hn::BitCast(d64, pair(a, b));
  const auto high = hn::BitCast(d64, pair(c, d));
  // In every block of four lanes: what a to d have there.
  const VF blocks = hn::Add(hn::BitCast(df, hn::InterleaveLower(d64, low, high)),
                            hn::BitCast(df, hn::InterleaveUpper(d64, low, high)));
  return SumOfBlocks(df, blocks);
}
#endif

#undef TILE_ATTR
#define TILE_ATTR HWY_ATTR __attribute__((always_inline))

// Calls body(i) for i = 0 to n - 1, each a constant: arrays that they index can be registers.
template <size_t n, class Body>
HWY_INLINE void Each(const Body& body) {
  [&]<size_t... i>(std::index_sequence<i...>) TILE_ATTR {
    (body(std::integral_constant<size_t, i>()), ...);
  }
  (std::make_index_sequence<n>());
}

// v is in a register at this point of the program. Where a tile takes all 16 of them, GCC 12 would
// read an operand from memory for every use of it, 11 loads for 12 products where 7 do, and take
// sums of integers in an order of its own that needs more registers. Said of an operand after its
// last use, it keeps sums from moving into that register.
template <class V>
HWY_INLINE void InRegister([[maybe_unused]] V& v) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  asm volatile("" : "+x"(v.raw));
#endif
}

// One tile of y and the part of the rows that is summed into it.
struct Place {
  size_t row;     // of x and y
  size_t column;  // of y
  size_t count;   // of columns that are wanted, at most the tile's
  size_t begin;   // in the rows of x and W: a multiple of kDepth
  size_t depth;   // at most kDepth
};

// y = the sums over lanes, the bias or the parts before added. sum[m][n]: of row at.row + m of x
// and column at.column + n of y.
template <size_t kM, size_t kN>
HWY_INLINE void StoreTile(const Problem& p, const Place& at, const VF (&sum)[kM][kN]) {
  Each<kM>([&](auto m) TILE_ATTR {
    float* to = p.y + (at.row + m) * p.y_stride + at.column;
    const float* before = at.begin > 0 ? to : p.bias != nullptr ? p.bias + at.column : nullptr;
    Each<kN / 4>([&](auto quarter) TILE_ATTR {
      constexpr size_t n = 4 * quarter;
      const Four sums = SumsOfLanes(sum[m][n], sum[m][n + 1], sum[m][n + 2], sum[m][n + 3]);
      if (n + 4 <= at.count) {
        StoreFour(before != nullptr ? AddFour(LoadFour(before + n), sums) : sums, to + n);
        return;
      }
      float some[4];
      StoreFour(sums, some);
      for (size_t c = n; c < at.count; ++c) {
        to[c] = before != nullptr ? before[c] + some[c - n] : some[c - n];
      }
    });
  });
}

// y += the sum of one dot product, as a tile would have it; x has no other row.
HWY_INLINE void StoreOne(const Problem& p, size_t column, size_t begin, VF sum) {
  float value[4];
  StoreFour(SumsOfLanes(sum, sum, sum, sum), value);
  const float* before = begin > 0 ? p.y + column : p.bias != nullptr ? p.bias + column : nullptr;
  p.y[column] = before != nullptr ? *before + value[0] : value[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#endif
