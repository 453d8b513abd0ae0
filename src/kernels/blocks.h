// How the kernels of this folder share work out. Blocks are cut by the size of the work alone,
// never by the number of threads: sums over a block, and of blocks in their order, are the same
// with any.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace cosformer {

// A flat array is cut into pieces of 64 KiB.
constexpr int64_t kFlatBlock = 16384;

constexpr int64_t BlocksOf(int64_t n, int64_t block) { return (n + block - 1) / block; }

// A parallel region costs 5 to 10 us, in which one thread moves some 64 KiB: with less than twice
// that for each, it does not pay.
constexpr int64_t kBytesPerThread = 128 * 1024;

inline int TeamFor(int threads, int64_t blocks, int64_t bytes) {
  const int64_t allowed = threads > 0 ? threads : std::max(1, omp_get_max_threads());
  return static_cast<int>(
      std::max<int64_t>(1, std::min({allowed, blocks, bytes / kBytesPerThread})));
}

// Calls body(begin, end) for [0, n) in blocks; `bytes` is what the whole of it moves.
template <class Body>
void ForBlocks(int64_t n, int64_t block, int64_t bytes, int threads, const Body& body) {
  const int64_t blocks = BlocksOf(n, block);
  const int team = TeamFor(threads, blocks, bytes);
  if (team == 1) {
    for (int64_t b = 0; b < blocks; ++b) body(b * block, std::min(n, (b + 1) * block));
    return;
  }
#pragma omp parallel for schedule(static) num_threads(team)
  for (int64_t b = 0; b < blocks; ++b) body(b * block, std::min(n, (b + 1) * block));
}

// Rows of one block where only rows count: some 64 KiB, at least one row.
constexpr int64_t RowsPerBlock(int64_t width) {
  return std::max<int64_t>(1, kFlatBlock / std::max<int64_t>(1, width));
}

}  // namespace cosformer
