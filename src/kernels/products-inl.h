// What tiles of dot products share. Included once an instruction set.

#if defined(COSFORMER_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COSFORMER_PRODUCTS_INL_H
#undef COSFORMER_PRODUCTS_INL_H
#else
#define COSFORMER_PRODUCTS_INL_H
#endif

#include "kernels/product_parts.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

// Inlined and unrolled, loops over a tile leave its arrays in registers. With the address sanitizer
// they stay loops: else every access has its own check, which takes GCC a quarter of an hour.
#undef TILE_ATTR
#undef TILE_UNROLL
#if defined(__SANITIZE_ADDRESS__) || HWY_IS_ASAN
#define TILE_ATTR HWY_ATTR
#define TILE_UNROLL
#else
#define TILE_ATTR HWY_ATTR __attribute__((always_inline))
#define TILE_UNROLL _Pragma("GCC unroll 16")
#endif

// Calls body(i) for i = 0 to n - 1, unrolled.
template <size_t n, class Body>
HWY_INLINE void Each(const Body& body) {
  TILE_UNROLL
  for (size_t i = 0; i < n; ++i) body(i);
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
