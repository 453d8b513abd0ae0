// Where bad input is met: shapes, sequences and options of an attention call. Each function throws
// an Error that names the sizes or the field and the value.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "attention/linear_kernels.h"
#include "cosformer/attention.h"

namespace cosformer {

template <class... Parts>
[[noreturn]] void Fail(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  throw Error(out.str());
}

// One sequence: which rows of which batch entry.
struct Span {
  int64_t batch = 0;
  int64_t query_begin = 0;
  int64_t query_count = 0;
  int64_t key_begin = 0;
  int64_t key_count = 0;
};

// "[2, 128, 8, 64]".
std::string ShapeOf(const BasicView<const void>& view);

void CheckView(const char* name, const ConstView& view);
void CheckThreads(int threads);
void CheckScale(float scale);
// Of the spans of sums: empty where that is allowed, else one float a query and head.
void CheckSums(const char* name, size_t size, bool may_be_empty, const ConstView& q);

// q, k, v and an output of the queries' length and heads and the values' dim.
void CheckAttention(const ConstView& q, const ConstView& k, const ConstView& v, const ConstView& o);
// These, and their gradients.
void CheckGradients(const ConstView& q, const ConstView& k, const ConstView& v, const ConstView& o,
                    const ConstView& d_o, const ConstView& dq, const ConstView& dk,
                    const ConstView& dv);

std::vector<Span> CheckSequences(const Sequences& sequences, const ConstView& q, const ConstView& k,
                                 bool causal);

// What is kept, of every key and head, where anything is given.
void CheckKeep(size_t size, const ConstView& k, bool causal);

// The settings themselves, and that no sequence is longer than the horizon.
void CheckKernel(const LinearKernel& kernel);
void CheckHorizon(const LinearKernel& kernel, const std::vector<Span>& spans);

// Names the first field in which `given` differs.
void CheckSameConfig(const LinearStateConfig& expected, const LinearStateConfig& given,
                     const char* given_name);

// Zeroes the rows that belong to no sequence. Padding stands only before the first and after the
// last sequence of a batch entry.
void ZeroQueryPadding(const View& view, const std::vector<Span>& spans);
void ZeroKeyPadding(const View& view, const std::vector<Span>& spans);
void ZeroSumsPadding(std::span<float> sums, const ConstView& q, const std::vector<Span>& spans);

// Row `length` of a batch entry and head.
inline const void* RowAt(const ConstView& view, int64_t batch, int64_t length, int64_t head) {
  return ElementAt(
      view.data, view.dtype,
      batch * view.batch_stride + length * view.length_stride + head * view.head_stride);
}
inline void* RowAt(const View& view, int64_t batch, int64_t length, int64_t head) {
  return const_cast<void*>(RowAt(ConstView(view), batch, length, head));
}

}  // namespace cosformer
