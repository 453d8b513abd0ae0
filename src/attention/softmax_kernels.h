// Softmax attention of one head, block by block: the contract between softmax.cc, which plans, and
// the SIMD in softmax_kernels.cc.
#pragma once

#include <algorithm>

#include "attention/linear_kernels.h"

namespace cosformer {

// Query rows that share one packing of the keys: packing costs some 6 % of their work.
inline constexpr int64_t kQueryRows = 256;
// Keys (and, in the backward pass, queries) handled at a time.
inline constexpr int64_t kBlock = 64;
// Fewer queries than a tile has rows: keys are read where they lie, in segments of this many, which
// threads share out.
inline constexpr int64_t kFewQueries = 4;
inline constexpr int64_t kSegment = 2048;

struct SoftmaxHead {
  Operand query;
  Operand key;
  Operand value;
  int64_t query_count = 0;
  int64_t key_count = 0;
  int64_t query_offset = 0;  // causal: query i attends to the keys up to i + query_offset
  bool causal = true;
  float scale = 1;

  // The keys that query i attends to.
  int64_t KeysOf(int64_t i) const {
    return causal ? std::min(key_count, i + query_offset + 1) : key_count;
  }
};

// Rows begin to end - 1, at most kQueryRows of them. output.sums receives log-sum-exp.
void RunSoftmax(const SoftmaxHead& head, int64_t begin, int64_t end, const Output& output,
                float* scratch);
int64_t SoftmaxScratch(const SoftmaxHead& head);  // floats

// One query over the keys of one segment: partial = [maximum, sum, weighted values].
void RunSoftmaxSegment(const SoftmaxHead& head, int64_t row, int64_t segment, float* partial);
int64_t SegmentPartial(const SoftmaxHead& head);  // floats
// Joins the partials of a query's segments, in order.
void JoinSegments(const SoftmaxHead& head, int64_t row, int64_t segments, float* partials,
                  const Output& output);

// The backward pass of one key/value head and the query heads that share it.
struct SoftmaxBackward {
  std::span<const SoftmaxHead> heads;
  std::span<const Operand> d_o;
  std::span<const float* const> log_sum_exp;  // of each head, with side_stride
  std::span<const float* const> delta;        // d_o . o, likewise
  int64_t side_stride = 0;
  std::span<const Output> dq;
  Output dk;
  Output dv;
};

// All gradients in one pass over the blocks (five products a block). dq_sums: for each head
// query_count rows of RoundUp(dim, kMaxLanes) floats, or null where SumsInPlace says that the
// outputs serve.
void RunSoftmaxBackward(const SoftmaxBackward& task, float* dq_sums, float* scratch);
// The same, to the bit, in parts that can run side by side: dq of a block of queries of one head;
// dk and dv of a block of keys. Seven products a block.
void RunSoftmaxBackwardQueries(const SoftmaxBackward& task, int64_t head, int64_t begin,
                               float* scratch);
void RunSoftmaxBackwardKeys(const SoftmaxBackward& task, int64_t begin, float* scratch);
int64_t SoftmaxBackwardScratch(const SoftmaxHead& head);  // floats
bool SumsInPlace(const Output& dq);

}  // namespace cosformer
