// What tiles of dot products share. Included once an instruction set.

#if defined(COSFORMER_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COSFORMER_PRODUCTS_INL_H
#undef COSFORMER_PRODUCTS_INL_H
#else
#define COSFORMER_PRODUCTS_INL_H
#endif

#include <utility>

#include "kernels/product_parts.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

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

// One tile of y and the part of the rows that is summed into it.
struct Place {
  size_t row;     // of x and y
  size_t column;  // of y
  size_t count;   // of columns that are wanted, at most the tile's
  size_t begin;   // in the rows of x and W
  size_t depth;
};

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#endif
