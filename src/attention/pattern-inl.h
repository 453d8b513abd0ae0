// What a pattern needs beside softmax over blocks: which pairs of a block are seen, rows gathered
// by index, blocks of keys that stay packed, sums of rows in memory. Included once an instruction
// set.

#if defined(COSFORMER_PATTERN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COSFORMER_PATTERN_INL_H
#undef COSFORMER_PATTERN_INL_H
#else
#define COSFORMER_PATTERN_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "attention/pattern_kernels.h"
#include "attention/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cosformer {
namespace HWY_NAMESPACE {

using DI = hn::RebindToSigned<DF>;

// Entries of a pattern: their rows and, where it has them, their labels.
struct Entries {
  const int32_t* rows = nullptr;
  const int32_t* labels = nullptr;

  Entries From(int64_t begin) const {
    return {rows + begin, labels == nullptr ? nullptr : labels + begin};
  }
};

static HWY_INLINE Entries QueriesOf(const AttentionPattern& pattern) {
  return {pattern.query_rows.data(),
          pattern.query_labels.empty() ? nullptr : pattern.query_labels.data()};
}

static HWY_INLINE Entries KeysOf(const AttentionPattern& pattern) {
  return {pattern.key_rows.data(),
          pattern.key_labels.empty() ? nullptr : pattern.key_labels.data()};
}

// Between which rows and labels some entries lie.
struct Bounds {
  int32_t first = 0, last = 0;
  int32_t least_label = 0, greatest_label = 0;
};

static HWY_INLINE Bounds BoundsOf(const Entries& entries, size_t count) {
  Bounds b{entries.rows[0], entries.rows[0], 0, 0};
  for (size_t i = 1; i < count; ++i) {
    b.first = std::min(b.first, entries.rows[i]);
    b.last = std::max(b.last, entries.rows[i]);
  }
  if (entries.labels == nullptr) return b;
  b.least_label = b.greatest_label = entries.labels[0];
  for (size_t i = 1; i < count; ++i) {
    b.least_label = std::min(b.least_label, entries.labels[i]);
    b.greatest_label = std::max(b.greatest_label, entries.labels[i]);
  }
  return b;
}

enum class Seen : uint8_t { kNone, kSome, kAll };

// Which pairs of a tile are seen. Rows differ by less than 2^31, so that their distances and the
// limits to them fit into the lanes of the scores.
struct Rule {
  Rule(const AttentionPattern& pattern, const AttentionPattern::Tile& tile)
      : causal(pattern.causal),
        labels(!pattern.query_labels.empty()),
        penalty(pattern.self_penalty),
        nearest(Clamped(tile.min_distance)),
        furthest(Clamped(tile.max_distance)) {}

  static int32_t Clamped(int64_t distance) {
    return static_cast<int32_t>(std::min<int64_t>(distance, std::numeric_limits<int32_t>::max()));
  }

  // From the bounds alone: kSome where they leave it open, or where a pair has the penalty.
  Seen Of(const Bounds& q, const Bounds& k) const {
    const int64_t before = int64_t{q.first} - k.last;  // negative unless all keys come first
    const int64_t after = int64_t{k.first} - q.last;
    const int64_t least = std::max<int64_t>({0, before, after});
    const int64_t greatest = std::max(int64_t{q.last} - k.first, int64_t{k.last} - q.first);
    if ((causal && after > 0) || least > furthest || greatest < nearest ||
        q.least_label > k.greatest_label || k.least_label > q.greatest_label) {
      return Seen::kNone;
    }
    const bool one_label = q.least_label == q.greatest_label && k.least_label == k.greatest_label &&
                           q.least_label == k.least_label;
    const bool all = (!causal || before >= 0) && greatest <= furthest && least >= nearest &&
                     one_label && (penalty == 0 || least > 0);
    return all ? Seen::kAll : Seen::kSome;
  }

  bool Sees(const Entries& queries, size_t i, const Entries& keys, size_t j) const {
    const int64_t ahead = int64_t{queries.rows[i]} - keys.rows[j];
    const int64_t distance = causal ? ahead : std::abs(ahead);
    return nearest <= distance && distance <= furthest &&
           (!labels || queries.labels[i] == keys.labels[j]);
  }

  // The same for query i and the keys from j on, a vector of them; their scores get the penalty.
  HWY_INLINE hn::Mask<DF> Mask(const Entries& queries, size_t i, const Entries& keys, size_t j,
                               VF& scores) const {
    const DF df;
    const DI di;
    const auto ahead = hn::Sub(hn::Set(di, queries.rows[i]), hn::LoadU(di, keys.rows + j));
    const auto distance = causal ? ahead : hn::Abs(ahead);
    auto seen = hn::Not(
        hn::Or(hn::Lt(distance, hn::Set(di, nearest)), hn::Gt(distance, hn::Set(di, furthest))));
    if (labels) {
      seen = hn::And(seen, hn::Eq(hn::Set(di, queries.labels[i]), hn::LoadU(di, keys.labels + j)));
    }
    if (penalty != 0) {
      const auto self = hn::RebindMask(df, hn::Eq(ahead, hn::Zero(di)));
      scores = hn::Add(scores, hn::IfThenElseZero(self, hn::Set(df, penalty)));
    }
    return hn::RebindMask(df, seen);
  }

  bool causal;
  bool labels;
  float penalty;
  int32_t nearest;
  int32_t furthest;
};

// PackRows for rows in any order; the factor, if there is one, is the same for all.
static HWY_NOINLINE void GatherRows(const Operand& op, const int32_t* HWY_RESTRICT rows,
                                    size_t count, float* HWY_RESTRICT out, size_t step,
                                    size_t padded) {
  const size_t dim = static_cast<size_t>(op.dim);
  if (op.dtype != DType::kFloat32 || dim != step) {
    for (size_t r = 0; r < count; ++r) PackRows(op, rows[r], 1, out + r * step, step, 1);
  } else {
    // A call of PackRows a row would cost as much as the row.
    const DF df;
    const float* HWY_RESTRICT data = static_cast<const float*>(op.data);
    const VF factor = hn::Set(df, op.factor == nullptr ? 1.0f : *op.factor);
    for (size_t r = 0; r < count; ++r) {
      const float* from = data + rows[r] * op.stride;
      PackRow<FeatureMap::kIdentity>(
          from, dim, factor, [factor](VF x) HWY_ATTR { return hn::Mul(x, factor); },
          out + r * step);
    }
  }
  ZeroRows(out, step, count, padded);
}

// Rows that sums are added to, in an output's own rows where those are whole vectors of float32,
// else in scratch. A row is written when something first arrives: rows of one head lie a page apart
// where the model is wide, and to clear them before would enter every page once more.
class RowSums {
 public:
  RowSums(const Output& output, int64_t rows, Arena& arena)
      : output_(&output),
        count_(rows),
        in_place_(output.dtype == DType::kFloat32 &&
                  output.dim % static_cast<int64_t>(kLanes) == 0),
        width_(in_place_ ? static_cast<size_t>(output.dim) : StepOf(output.dim)),
        stride_(in_place_ ? output.stride : static_cast<int64_t>(width_)),
        written_(reinterpret_cast<unsigned char*>(
            arena.Take(static_cast<size_t>(rows) / sizeof(float) + 1))),
        data_(in_place_ ? static_cast<float*>(output.data)
                        : arena.Take(static_cast<size_t>(rows) * width_)) {}

  float* Row(int64_t row) const { return data_ + row * stride_; }
  size_t width() const { return width_; }

  void Begin() const { std::fill_n(written_, count_, 0); }

  // Adds `from` [count][step], times a factor, to the rows listed.
  void Add(const float* HWY_RESTRICT from, size_t step, size_t count,
           const int32_t* HWY_RESTRICT rows, float factor) const {
    const DF df;
    const VF f = hn::Set(df, factor);
    for (size_t r = 0; r < count; ++r, from += step) {
      float* HWY_RESTRICT to = Row(rows[r]);
      if (written_[rows[r]]) {
        for (size_t c = 0; c < width_; c += kLanes) {
          hn::StoreU(hn::MulAdd(hn::Load(df, from + c), f, hn::LoadU(df, to + c)), df, to + c);
        }
      } else {
        written_[rows[r]] = 1;
        for (size_t c = 0; c < width_; c += kLanes) {
          hn::StoreU(hn::Mul(hn::Load(df, from + c), f), df, to + c);
        }
      }
    }
  }

  // Rows to which nothing was added are zero.
  void Finish() const {
    for (int64_t i = 0; i < count_; ++i) {
      if (!written_[i]) std::fill_n(Row(i), width_, 0.0f);
    }
    Store();
  }

  void Store() const {
    if (!in_place_) UnpackRows(data_, width_, 0, static_cast<size_t>(count_), *output_);
  }

 private:
  const Output* output_;
  int64_t count_;
  bool in_place_;
  size_t width_;
  int64_t stride_;
  unsigned char* written_;  // [count]
  float* data_;
};

// Up to kQueryRows entries of queries, with the bounds of each register tile, of each block, of
// all.
struct QueryChunk {
  QueryChunk(const Entries& from, size_t n) : entries(from), count(n), bounds(BoundsOf(from, n)) {
    for (size_t i = 0; i < n; i += kRows) {
      tiles[i / kRows] = BoundsOf(from.From(static_cast<int64_t>(i)), std::min(kRows, n - i));
    }
    for (size_t i = 0; i < n; i += kB) {
      blocks[i / kB] = BoundsOf(from.From(static_cast<int64_t>(i)), std::min(kB, n - i));
    }
  }
  size_t Padded() const { return (count + kRows - 1) / kRows * kRows; }

  Entries entries;
  size_t count;
  Bounds bounds;
  Bounds tiles[kQueryRows / kRows];
  Bounds blocks[kQueryRows / kBlock];
};

// A block of keys and values, packed. Padding up to `columns` is zero.
struct KeyBlock {
  Entries Keys() const { return {rows, labels}; }

  int64_t begin = -1;  // entry of the pattern; -1: none yet
  size_t count = 0;
  size_t columns = 0;  // count in whole vectors
  Bounds bounds;
  bool finite = true;  // forward: the values; backward: the keys
  HWY_ALIGN int32_t rows[kB];
  HWY_ALIGN int32_t labels[kB];
  float* key_columns;  // [width][kB]
  float* values;       // [kB][value_step]
  float* keys;         // [kB][width_step]; forward: shared by all blocks
  // Backward only:
  float* value_columns = nullptr;  // [values_width][kB]
  float* dk = nullptr;             // [kB][width_step]: sums of the block so far
  float* dv = nullptr;             // [kB][value_step]
};

// The latest blocks of keys: a block is wanted again by the queries that follow, which see mostly
// the same neighbours. Four of 64 keys of dim 64 take 128 KiB forward, 384 KiB backward, where they
// gather their gradients as well.
class KeyBlocks {
 public:
  static constexpr size_t kKept = 4;

  // dk and dv: null forward.
  KeyBlocks(const PatternHead& head, const RowSums* dk, const RowSums* dv, Arena& arena)
      : dk_(dk), dv_(dv), width_step_(StepOf(head.key.dim)), value_step_(StepOf(head.value.dim)) {
    float* shared = dk == nullptr ? arena.Take(kB * width_step_) : nullptr;
    for (KeyBlock& block : blocks_) {
      block.key_columns = arena.Take(width_step_ * kB);
      block.values = arena.Take(kB * value_step_);
      block.keys = shared;
      if (dk == nullptr) continue;
      block.keys = arena.Take(kB * width_step_);
      block.value_columns = arena.Take(value_step_ * kB);
      block.dk = arena.Take(kB * width_step_);
      block.dv = arena.Take(kB * value_step_);
    }
  }

  // The blocks that follow are of this head.
  void Begin(const PatternHead& head) { head_ = &head; }

  const KeyBlock& Get(int64_t begin, size_t count, const Bounds& bounds) {
    for (const KeyBlock& block : blocks_) {
      if (block.begin == begin && block.count == count) return block;
    }
    KeyBlock& block = blocks_[next_];
    next_ = (next_ + 1) % kKept;
    Release(block);
    Fill(begin, count, bounds, block);
    return block;
  }

  // Forgets all blocks and hands on their gradients.
  void End() {
    for (KeyBlock& block : blocks_) Release(block);
  }

 private:
  void Release(KeyBlock& block) const {
    if (dk_ != nullptr && block.begin >= 0) {
      dk_->Add(block.dk, width_step_, block.count, block.rows, 1.0f);
      dv_->Add(block.dv, value_step_, block.count, block.rows, 1.0f);
    }
    block.begin = -1;
  }

  void Fill(int64_t begin, size_t count, const Bounds& bounds, KeyBlock& block) const {
    const Entries keys = KeysOf(*head_->pattern).From(begin);
    block.begin = begin;
    block.count = count;
    block.columns = (count + kLanes - 1) / kLanes * kLanes;
    block.bounds = bounds;
    std::copy_n(keys.rows, count, block.rows);
    std::fill(block.rows + count, block.rows + block.columns, 0);
    std::fill(block.labels, block.labels + block.columns, 0);
    if (keys.labels != nullptr) std::copy_n(keys.labels, count, block.labels);
    GatherRows(head_->key, keys.rows, count, block.keys, width_step_, block.columns);
    GatherRows(head_->value, keys.rows, count, block.values, value_step_, block.columns);
    Transpose(block.keys, width_step_, block.columns, static_cast<size_t>(head_->key.dim),
              block.key_columns, kB);
    if (dk_ == nullptr) {
      block.finite = AllFinite(block.values, count * value_step_);
      return;
    }
    Transpose(block.values, value_step_, block.columns, static_cast<size_t>(head_->value.dim),
              block.value_columns, kB);
    block.finite = AllFinite(block.keys, count * width_step_);
    std::fill_n(block.dk, count * width_step_, 0.0f);
    std::fill_n(block.dv, count * value_step_, 0.0f);
  }

  const RowSums* dk_;
  const RowSums* dv_;
  size_t width_step_;
  size_t value_step_;
  const PatternHead* head_ = nullptr;
  size_t next_ = 0;
  KeyBlock blocks_[kKept];
};

// Calls body(first tile, end, chunk) for each chunk of queries of each run of tiles that share
// their queries.
template <class Body>
static HWY_INLINE void ForQueryChunks(const AttentionPattern& pattern, const Body& body) {
  const AttentionPattern::Tile* tile = pattern.tiles.data();
  const AttentionPattern::Tile* const last = tile + pattern.tiles.size();
  while (tile != last) {
    const AttentionPattern::Tile* end = tile + 1;
    while (end != last && end->query_begin == tile->query_begin &&
           end->query_count == tile->query_count) {
      ++end;
    }
    for (int64_t i = 0; i < tile->query_count; i += kQueryRows) {
      const size_t count = static_cast<size_t>(std::min(kQueryRows, tile->query_count - i));
      body(tile, end, QueryChunk(QueriesOf(pattern).From(tile->query_begin + i), count));
    }
    tile = end;
  }
}

// Calls body(rule, block) for the blocks of keys of these tiles in which the chunk may see a pair.
template <class Body>
static HWY_INLINE void ForKeyBlocks(const AttentionPattern& pattern,
                                    const AttentionPattern::Tile* tile,
                                    const AttentionPattern::Tile* end, const QueryChunk& chunk,
                                    KeyBlocks& blocks, const Body& body) {
  const Entries keys = KeysOf(pattern);
  for (; tile != end; ++tile) {
    const Rule rule(pattern, *tile);
    for (int64_t j = 0; j < tile->key_count; j += kBlock) {
      const int64_t begin = tile->key_begin + j;
      const size_t count = static_cast<size_t>(std::min(kBlock, tile->key_count - j));
      const Bounds bounds = BoundsOf(keys.From(begin), count);
      if (rule.Of(chunk.bounds, bounds) == Seen::kNone) continue;
      body(rule, blocks.Get(begin, count, bounds));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cosformer
HWY_AFTER_NAMESPACE();

#endif
