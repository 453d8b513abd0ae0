// Softmax attention of one head over the tiles of a pattern: the contract between pattern.cc, which
// checks and shares out heads, and the SIMD in pattern_kernels.cc.
#pragma once

#include <cstdint>
#include <span>

#include "attention/linear_kernels.h"
#include "attention/pattern.h"

namespace cosformer {

// A pattern whose rows, ranges and labels have been checked, and all rows of one head.
struct PatternHead {
  const AttentionPattern* pattern = nullptr;
  Operand query;
  Operand key;
  Operand value;
  int64_t query_length = 0;
  int64_t key_length = 0;
  float scale = 1;
};

// All rows of one head. output.sums receives log-sum-exp.
void RunPattern(const PatternHead& head, const Output& output, float* scratch);
int64_t PatternScratch(const PatternHead& head, const Output& output);  // floats

// The backward pass of one key/value head and the query heads that share it.
struct PatternBackward {
  std::span<const PatternHead> heads;
  std::span<const Operand> o;
  std::span<const Operand> d_o;
  std::span<const float* const> log_sum_exp;  // of each head, with side_stride
  int64_t side_stride = 0;
  std::span<const Output> dq;
  Output dk;
  Output dv;
};

void RunPatternBackward(const PatternBackward& task, float* scratch);
int64_t PatternBackwardScratch(const PatternBackward& task);  // floats

}  // namespace cosformer
