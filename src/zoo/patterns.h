// Which keys each query sees in the systems whose attention is softmax over listed pairs: the
// patterns of one sequence, and what keeps them for the lengths that come again.
//
// All patterns list the rows 0 ... length - 1 only, so that rows beyond are padding: they are never
// seen and yield zeros. In causal use a row's keys do not depend on the length.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "attention/pattern.h"
#include "zoo/operators.h"
#include "zoo/system.h"

namespace cosformer::zoo {

// Blocks that do not overlap; a query sees its own.
AttentionPattern LocalPattern(int64_t length, int64_t block, bool causal);

// Query i sees the keys within `window` of it. Queries before `first_query` are not listed.
AttentionPattern WindowPattern(int64_t length, int64_t window, int64_t first_query, bool causal);

// Longformer: query i sees the keys within `window` of it. The first `globals` keys are seen by
// all queries, and their queries see all keys if `global_queries`, else nothing: they are then
// attended elsewhere.
AttentionPattern LongformerPattern(int64_t length, int64_t window, int64_t globals,
                                   bool global_queries, bool causal);

struct BigBirdBlocks {
  int64_t block = 64;         // tokens
  int64_t window_blocks = 3;  // odd: the query's own and its neighbours
  int64_t random_blocks = 3;
  int64_t first_blocks = 1;  // global: they see all and are seen by all
  int64_t last_blocks = 1;
};

// The random blocks are drawn from those that are neither window nor global; all of them if there
// are too few. The same seed and length give the same pattern everywhere.
AttentionPattern BigBirdPattern(int64_t length, const BigBirdBlocks& blocks, uint64_t seed);

// Which of the two patterns of a factorised attention, or their union.
enum class SparsePart : uint8_t { kBoth, kFirst, kSecond };

// Sparse Transformer, strided. First: the query and the stride - 1 positions before it (and after,
// unless causal). Second: the positions at a multiple of the stride from it.
AttentionPattern StridedPattern(int64_t length, int64_t stride, SparsePart part, bool causal);

// Sparse Transformer, fixed. First: the query's block of `stride` positions. Second: the last
// `summary` positions of every block. A query before the first summary sees nothing in the second
// alone.
AttentionPattern FixedPattern(int64_t length, int64_t stride, int64_t summary, SparsePart part,
                              bool causal);

// Reformer: buckets [rounds, length], each from 0 to bucket_count - 1. In each round the tokens of
// a bucket, in order, are cut into chunks; a chunk sees itself and the chunk before it. Counting
// from the bucket's first token, no chunk depends on later tokens.
AttentionPattern BucketPattern(std::span<const int32_t> buckets, int64_t rounds, int64_t length,
                               int64_t bucket_count, int64_t chunk, bool causal);

// The real length of each batch entry, [batch]: `rows` where the layout says nothing.
std::vector<int64_t> QueryLengths(const Layout& layout, int64_t batch, int64_t rows);
std::vector<int64_t> KeyLengths(const Layout& layout, int64_t batch, int64_t rows);

// Throws when a sequence does not fit a table of max_length positions.
void CheckLength(const char* system, int64_t length, int64_t max_length);

// The patterns of the lengths used last. Safe to use from several threads.
class PatternCache {
 public:
  // The patterns of one length: one for all heads, or one a head.
  using Build = std::function<std::vector<AttentionPattern>(int64_t length)>;
  explicit PatternCache(Build build) : build_(std::move(build)) {}

  // For PatternAttention: those of a batch whose entries have these lengths.
  std::vector<SharedPattern> For(std::span<const int64_t> lengths);
  // Forgets all: what the patterns are built from has changed.
  void Clear();

 private:
  struct Item {
    int64_t length = 0;
    std::vector<SharedPattern> patterns;  // one, or one a head
  };
  const Item& Find(int64_t length);

  Build build_;
  std::mutex mutex_;
  std::vector<Item> items_;  // the latest last
};

}  // namespace cosformer::zoo
