// The naive twin of the operator: double precision, O(N^2), each loop written straight from the
// definition. No decomposition of the cosine, no chunks, no speed: what the tests and the benchmark
// hold the real one against.
//
// Beside every result stands its magnitude: the sum of the absolute values of the terms that a
// computation in lower precision has to add, divided by what it divides by. An error of g roundings
// of 2^-24 a term moves the result by at most g * 2^-24 * magnitude, to first order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cosformer/attention.h"

namespace cosformer::reference {

// One query's attention. With A(i, j) the sum |s(i, j)| would be if no two features cancelled:
struct Row {
  std::vector<double> output;  // [value_dim]
  double normaliser = 0;       // sum_j s(i, j) before epsilon; softmax: log-sum-exp
  // Linear: sum_j A(i, j) (|v_j| + |o_i|) / |normaliser after epsilon|, the second term for the
  // error of the normaliser. Infinite where the normaliser is less than 2^-12 of its terms: they
  // cancel to so little that in float32 not even its sign is sure.
  // Softmax: sum_j p_j Z_j (|v_j| + |o_i|), Z_j = 1 + the magnitude of score j, because an error of
  // the score is a relative error of the weight.
  std::vector<double> magnitude;    // [value_dim]
  double normaliser_magnitude = 0;  // linear: sum_j A(i, j); softmax: sum_j p_j Z_j + |normaliser|
};

// `row` counts the rows of the tensor, not of a sequence; a row of padding gives zeros.
Row LinearRow(const ConstView& q, const ConstView& k, const ConstView& v,
              const LinearOptions& options, int64_t batch, int64_t row, int64_t head);
Row SoftmaxRow(const ConstView& q, const ConstView& k, const ConstView& v,
               const SoftmaxOptions& options, int64_t batch, int64_t row, int64_t head);

// Endless streaming of whole batch entries: with H = horizon / 2, query i attends to the keys from
// max(0, (i / H - 1) * H) to i, all divisions rounding down.
Row EndlessRow(const ConstView& q, const ConstView& k, const ConstView& v,
               const LinearKernel& kernel, int64_t batch, int64_t row, int64_t head,
               std::span<const float> keep = {});

// All rows, dense.
struct Output {
  std::vector<double> o;                     // [batch, length, heads, value_dim]
  std::vector<double> normaliser;            // [batch, length, heads]
  std::vector<double> magnitude;             // as o
  std::vector<double> normaliser_magnitude;  // as normaliser
};

Output LinearForward(const ConstView& q, const ConstView& k, const ConstView& v,
                     const LinearOptions& options);
Output SoftmaxForward(const ConstView& q, const ConstView& k, const ConstView& v,
                      const SoftmaxOptions& options);

// Gradients of sum(o * d_o), analytic, dense in the shapes of q, k, v, with their magnitudes. Those
// include the errors that o and the normaliser bring along from the forward pass, and are infinite
// where a query has no sure normaliser, or one so close to epsilon that it may have been moved.
struct Gradients {
  std::vector<double> dq, dk, dv;
  std::vector<double> mq, mk, mv;
  std::vector<double> d_log_keep, m_log_keep;  // as LinearOptions::keep
};

Gradients LinearBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                         const ConstView& d_o, const LinearOptions& options);
Gradients SoftmaxBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                          const ConstView& d_o, const SoftmaxOptions& options);

// One element of a view, widened.
double At(const ConstView& view, int64_t batch, int64_t row, int64_t head, int64_t element);

}  // namespace cosformer::reference
