// Sums over rows, column by column, that do not depend on the number of threads: every block of
// rows has sums of its own, which are added in the order of the blocks.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstdint>

#include "kernels/blocks.h"

namespace cosformer {

class ColumnSums {
 public:
  // Sums of `columns` columns over `rows` rows.
  ColumnSums(int64_t rows, int64_t columns);

  int64_t rows_per_block() const { return rows_per_block_; }

  // Where the block that begins at `row` adds up its rows: [columns], zero.
  float* Begin(int64_t row) const;

  // The sums of columns first ... first + count - 1, once all blocks are done.
  void Finish(int64_t first, int64_t count, float* sums) const;

 private:
  int64_t rows_per_block_;
  int64_t blocks_;
  int64_t columns_;
  int64_t step_;  // floats from block to block: whole cache lines
  hwy::AlignedFreeUniquePtr<float[]> partial_;
};

}  // namespace cosformer
