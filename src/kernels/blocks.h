// How the kernels of this folder share work out. Blocks are cut by the size of the work alone,
// never by the number of threads: sums over a block, and of blocks in their order, are the same
// with any.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/parallel.h"

namespace cosformer {

// A flat array is cut into pieces of 64 KiB.
constexpr int64_t kFlatBlock = 16384;

constexpr int64_t BlocksOf(int64_t n, int64_t block) { return (n + block - 1) / block; }

// Calls body(begin, end) for [0, n) in blocks; `bytes` is what the whole of it moves.
template <class Body>
void ForBlocks(int64_t n, int64_t block, int64_t bytes, int threads, const Body& body) {
  const int64_t blocks = BlocksOf(n, block);
  Team(threads, blocks, {.bytes = static_cast<double>(bytes)})
      .RunEvenly(blocks, [&](int64_t b, int) { body(b * block, std::min(n, (b + 1) * block)); });
}

// Rows of one block where only rows count: some 64 KiB, at least one row.
constexpr int64_t RowsPerBlock(int64_t width) {
  return std::max<int64_t>(1, kFlatBlock / std::max<int64_t>(1, width));
}

}  // namespace cosformer
