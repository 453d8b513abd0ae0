// Attention by its definition, in double and N x N, and the comparison of a system with it: outputs
// and the gradients of everything that goes in, over strided inputs, shared heads and padding.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "zoo/system.h"

namespace cosformer::testing {

using torch::Tensor;

// Heads of k or v, [batch, m, kv_heads, dim], repeated for `heads` query heads.
Tensor Repeated(const Tensor& shared, int64_t heads);

// sum_j softmax_j(scores_ij) v_j, where pair (i, j) counts counts_ij times; rows that see nothing
// are zero.
//   scores [batch, heads, n, m]   counts [batch, heads, n, m], or 1 for batch and heads
//   v [batch, m, kv_heads, value_dim]   ->   [batch, n, heads, value_dim]
Tensor NaiveWeighted(const Tensor& scores, const Tensor& counts, const Tensor& v);
// With the scores scale * q . k; scale 0: 1 / sqrt(dim).
Tensor NaiveSoftmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& counts,
                    double scale = 0);

// counts [batch, heads, n, m] from how often query i of a sequence of some length sees key j;
// beyond the lengths nothing is seen. The length is that of the keys.
using Sees = std::function<double(int64_t length, int64_t head, int64_t i, int64_t j)>;
Tensor Counts(const std::vector<int64_t>& query_lengths, const std::vector<int64_t>& key_lengths,
              int64_t heads, int64_t n, int64_t m, const Sees& sees);

// What a system is asked to do.
struct Problem {
  std::string system;
  std::string options = "{}";
  zoo::Geometry geometry = {};
  int64_t batch = 2;
  int64_t n = 17;
  int64_t m = 0;                      // 0: as n
  std::vector<int64_t> lengths = {};  // padding; empty: none
  std::vector<int64_t> key_lengths = {};
  uint64_t seed = 1;
  bool training = false;

  int64_t keys() const { return m == 0 ? n : m; }
  // [batch], also where there is no padding.
  std::vector<int64_t> QueryLengths() const;
  std::vector<int64_t> KeyLengths() const;
};
std::string Describe(const Problem& problem);

// A system as AttentionImpl would make it; in evaluation, unless the problem says training.
std::shared_ptr<zoo::System> MakeSystem(const Problem& problem);

// Random rows as they come from a fused projection: not dense.
zoo::Inputs RandomInputs(const Problem& problem, const zoo::System& system);

// The same in double, for a definition.
struct Exact {
  Tensor q, k, v, x;
  std::map<std::string, Tensor> parameters;
  std::vector<int64_t> query_lengths, key_lengths;
};
using Definition = std::function<Tensor(const Exact&)>;

// Of a tensor of float32 against its exact value: every element is finite and within
// growth * 2^-24 of the largest exact one, and `cancelled` * 2^-24: the size of what adds up to
// less, times the roundings that it has met.
// The growth of what passes through `path` roundings in sequence, with scores up to `scores`, whose
// errors the exponential multiplies.
double GrowthOf(int64_t path, double scores);
void ExpectClose(const std::string& name, const Tensor& actual, const Tensor& exact, double growth,
                 double cancelled = 0);

// Forward and backward of the system against those of its definition.
void ExpectAgrees(const Problem& problem, zoo::System& system, const Definition& definition);
void ExpectAgrees(const Problem& problem, const Definition& definition);

// No token after i changes anything at or before i, to the bit; and the rows of a prefix are, up to
// rounding, those of the prefix alone.
void ExpectCausal(const Problem& problem, zoo::System& system);

// Steps of random sizes through a stream give what the whole sequence gives.
void ExpectStreams(const Problem& problem, zoo::System& system);

// Problems of a system in many shapes: odd lengths from 1 to max_length, shared heads, padding with
// an empty sequence among the lengths, all directions of `directions`.
std::vector<Problem> Shapes(const std::string& system, const std::string& options,
                            const std::vector<Direction>& directions, int64_t max_length);

// That making or running something throws an Error whose text holds all of `mentions`.
void ExpectRefused(const std::function<void()>& run, const std::vector<std::string>& mentions);

}  // namespace cosformer::testing
