// Softmax attention over listed pairs of queries and keys, with gradients. Windows, strides, global
// tokens, random blocks and sorted buckets are all data for it: nothing of the size queries x keys
// is built, and the work is proportional to the pairs listed.
//
// The contracts are those of cosformer/attention.h.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cosformer/attention.h"

namespace cosformer {

// Which keys each query sees: tiles of query rows against key rows. A query may stand in several
// tiles, and twice in one; its softmax runs over all pairs of all of them. A pair listed twice
// counts twice.
struct AttentionPattern {
  struct Tile {
    int64_t query_begin = 0, query_count = 0;  // entries of query_rows
    int64_t key_begin = 0, key_count = 0;      // entries of key_rows
    // Pairs further apart or nearer than this, by |row of the query - row of the key|, are not
    // seen.
    int64_t min_distance = 0;
    int64_t max_distance = std::numeric_limits<int64_t>::max();
  };
  std::vector<int32_t> query_rows;  // rows of q, in any order
  std::vector<int32_t> key_rows;    // rows of k and v
  std::vector<Tile> tiles;
  bool causal = false;  // only keys whose row is at most the query's
  // Entry by entry beside query_rows and key_rows, or both empty: a pair is seen only if its labels
  // agree.
  std::vector<int32_t> query_labels, key_labels;
  float self_penalty = 0;  // added to the score where the key's row is the query's
};

struct PatternOptions {
  float scale = 0;  // of the scores; 0: 1 / sqrt(dim)
  int threads = 0;  // 0: as many as OpenMP would use
};

// o_i = sum_j softmax_j(scale * q_i . k_j) v_j over the keys j that query i sees; a query that sees
// none yields zeros.
//   q [batch, n, heads, dim]     k [batch, m, kv_heads, dim]     v [batch, m, kv_heads, value_dim]
//   o [batch, n, heads, value_dim]
// patterns: one for all, or one a batch entry [batch], or one a batch entry and query head
// [batch, heads]. The same pattern may stand there many times.
// log_sum_exp: empty, or batch * n * heads floats that receive the log of the sum of exponentials
// as [batch, n, heads] (-infinity without keys); the backward pass needs them.
// Tiles of 64 x 64 pairs or more run at about the speed of SoftmaxAttentionForward over as many
// keys a query; rows may lie anywhere. Neighbouring tiles with the same queries run together, and
// the last four blocks of 64 keys stay packed: list tiles in the order of their queries. Threads
// share out batch entries and heads. Extra memory: for each thread some blocks, two floats a query
// and, where o's rows are not whole vectors of float32, n rows of it.
void PatternAttentionForward(const ConstView& q, const ConstView& k, const ConstView& v,
                             std::span<const AttentionPattern* const> patterns, const View& o,
                             std::span<float> log_sum_exp, const PatternOptions& options);

// Gradients of the forward pass with the same arguments. o and log_sum_exp are what it returned,
// d_o [as o] is the gradient of the loss with respect to o; dq, dk, dv [as q, k, v] are written.
// Threads share out batch entries and key/value heads.
// Extra memory: for each thread some blocks, one float and some bytes a row, and one head of each
// gradient whose rows are not whole vectors of float32.
void PatternAttentionBackward(const ConstView& q, const ConstView& k, const ConstView& v,
                              std::span<const AttentionPattern* const> patterns, const ConstView& o,
                              std::span<const float> log_sum_exp, const ConstView& d_o,
                              const View& dq, const View& dk, const View& dv,
                              const PatternOptions& options);

}  // namespace cosformer
