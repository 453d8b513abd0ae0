// Where sums over rows are kept while blocks of rows add to them, and how they are joined.

#include "kernels/column_sums.h"

#include <algorithm>
#include <new>

namespace cosformer {
namespace {

// Enough for every thread of a large machine; few enough that their sums cost nothing beside the
// rows. The shorter the runs that are added up, the better they are rounded.
constexpr int64_t kMaxBlocks = 64;
constexpr int64_t kMinRows = 16;
constexpr int64_t kLine = 16;

}  // namespace

ColumnSums::ColumnSums(int64_t rows, int64_t columns)
    : rows_per_block_(std::max(kMinRows, BlocksOf(rows, kMaxBlocks))),
      blocks_(BlocksOf(rows, rows_per_block_)),
      columns_(columns),
      step_(BlocksOf(columns, kLine) * kLine),
      partial_(
          hwy::AllocateAligned<float>(static_cast<size_t>(std::max<int64_t>(1, blocks_ * step_)))) {
  if (!partial_) throw std::bad_alloc();
}

float* ColumnSums::Begin(int64_t row) const {
  float* sums = partial_.get() + row / rows_per_block_ * step_;
  std::fill_n(sums, columns_, 0.0f);
  return sums;
}

void ColumnSums::Finish(int64_t first, int64_t count, float* sums) const {
  std::fill_n(sums, count, 0.0f);
  for (int64_t b = 0; b < blocks_; ++b) {
    const float* partial = partial_.get() + b * step_ + first;
    for (int64_t c = 0; c < count; ++c) sums[c] += partial[c];
  }
}

}  // namespace cosformer
