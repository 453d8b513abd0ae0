// Patterns are lists of tiles. Tiles that share their queries stand together, which the kernel runs
// as one, and keys are listed once, in order, wherever the pattern allows it, so that a block of
// them is packed once for all the queries around it.
#include "zoo/patterns.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>

#include "cosformer/error.h"
#include "kernels/hash.h"

namespace cosformer::zoo {
namespace {

// Queries that the kernel runs together, and keys that it packs together: windows cut at these
// find the blocks of their neighbours packed already.
constexpr int64_t kQueries = 256;
constexpr int64_t kKeys = 64;

// A decoder's batch has many lengths: enough for a batch of them twice.
constexpr size_t kCachedLengths = 64;

AttentionPattern InOrder(int64_t length, bool causal) {
  AttentionPattern pattern;
  pattern.query_rows.resize(static_cast<size_t>(length));
  std::iota(pattern.query_rows.begin(), pattern.query_rows.end(), 0);
  pattern.key_rows = pattern.query_rows;
  pattern.causal = causal;
  return pattern;
}

// The keys within `window` of the queries from `begin` to `end` - 1, rows being in order.
AttentionPattern::Tile WindowTile(int64_t begin, int64_t end, int64_t window, int64_t length,
                                  bool causal) {
  AttentionPattern::Tile tile{.query_begin = begin, .query_count = end - begin};
  tile.key_begin = std::max<int64_t>(0, begin - window) / kKeys * kKeys;
  tile.key_count = (causal ? end : std::min(length, end + window)) - tile.key_begin;
  tile.max_distance = window;
  return tile;
}

// splitmix64: the same numbers on every platform, and good ones from any seed.
uint64_t NextRandom(uint64_t& state) { return Mix(state += kMixStep); }

std::vector<int64_t> Lengths(const std::vector<int64_t>& given, int64_t batch, int64_t rows) {
  return given.empty() ? std::vector<int64_t>(static_cast<size_t>(batch), rows) : given;
}

}  // namespace

AttentionPattern LocalPattern(int64_t length, int64_t block, bool causal) {
  AttentionPattern pattern = InOrder(length, causal);
  for (int64_t begin = 0; begin < length; begin += block) {
    const int64_t count = std::min(block, length - begin);
    pattern.tiles.push_back({begin, count, begin, count});
  }
  return pattern;
}

AttentionPattern WindowPattern(int64_t length, int64_t window, int64_t first_query, bool causal) {
  AttentionPattern pattern = InOrder(length, causal);
  for (int64_t begin = first_query; begin < length; begin += kQueries) {
    const int64_t end = std::min(length, begin + kQueries);
    pattern.tiles.push_back(WindowTile(begin, end, window, length, causal));
  }
  return pattern;
}

AttentionPattern LongformerPattern(int64_t length, int64_t window, int64_t globals,
                                   bool global_queries, bool causal) {
  AttentionPattern pattern = InOrder(length, causal);
  globals = std::min(globals, length);
  if (globals > 0 && global_queries) pattern.tiles.push_back({0, globals, 0, length});
  for (int64_t begin = globals; begin < length; begin += kQueries) {
    const int64_t end = std::min(length, begin + kQueries);
    pattern.tiles.push_back(WindowTile(begin, end, window, length, causal));
    if (globals > 0) {
      pattern.tiles.push_back({begin, end - begin, 0, globals, /*min_distance=*/window + 1});
    }
  }
  return pattern;
}

AttentionPattern BigBirdPattern(int64_t length, const BigBirdBlocks& blocks, uint64_t seed) {
  AttentionPattern pattern = InOrder(length, /*causal=*/false);
  const int64_t count = (length + blocks.block - 1) / blocks.block;
  const int64_t reach = blocks.window_blocks / 2;
  const auto global = [&](int64_t b) {
    return b < blocks.first_blocks || b >= count - blocks.last_blocks;
  };
  std::vector<int64_t> others;
  std::vector<bool> seen;
  for (int64_t b = 0; b < count; ++b) {
    const int64_t begin = b * blocks.block;
    const int64_t rows = std::min(blocks.block, length - begin);
    if (global(b)) {
      pattern.tiles.push_back({begin, rows, 0, length});
      continue;
    }
    others.clear();
    seen.assign(static_cast<size_t>(count), false);
    for (int64_t j = 0; j < count; ++j) {
      seen[j] = global(j) || std::abs(j - b) <= reach;
      if (!seen[j]) others.push_back(j);
    }
    // The beginning of a shuffle.
    const int64_t left = static_cast<int64_t>(others.size());
    for (int64_t r = 0; r < std::min(blocks.random_blocks, left); ++r) {
      const uint64_t pick = NextRandom(seed) % static_cast<uint64_t>(left - r);
      std::swap(others[r], others[r + static_cast<int64_t>(pick)]);
      seen[others[r]] = true;
    }
    for (int64_t j = 0; j < count; ++j) {
      if (!seen[j]) continue;
      const int64_t first = j;
      while (j + 1 < count && seen[j + 1]) ++j;
      const int64_t key_begin = first * blocks.block;
      const int64_t key_end = std::min(length, (j + 1) * blocks.block);
      pattern.tiles.push_back({begin, rows, key_begin, key_end - key_begin});
    }
  }
  return pattern;
}

AttentionPattern StridedPattern(int64_t length, int64_t stride, SparsePart part, bool causal) {
  AttentionPattern pattern = part == SparsePart::kSecond
                                 ? InOrder(0, causal)
                                 : WindowPattern(length, stride - 1, 0, causal);
  if (part == SparsePart::kFirst) return pattern;
  // Each class of positions with one remainder sees itself; what the window has is left out.
  for (int64_t remainder = 0; remainder < std::min(stride, length); ++remainder) {
    AttentionPattern::Tile tile;
    tile.query_begin = tile.key_begin = static_cast<int64_t>(pattern.query_rows.size());
    for (int64_t i = remainder; i < length; i += stride) {
      pattern.query_rows.push_back(static_cast<int32_t>(i));
      pattern.key_rows.push_back(static_cast<int32_t>(i));
    }
    tile.query_count = tile.key_count =
        static_cast<int64_t>(pattern.query_rows.size()) - tile.query_begin;
    tile.min_distance = part == SparsePart::kBoth ? stride : 0;
    pattern.tiles.push_back(tile);
  }
  return pattern;
}

AttentionPattern FixedPattern(int64_t length, int64_t stride, int64_t summary, SparsePart part,
                              bool causal) {
  AttentionPattern pattern = InOrder(length, causal);
  // The summaries of all blocks, behind the rows in order.
  for (int64_t i = 0; i < length; ++i) {
    if (i % stride >= stride - summary) pattern.key_rows.push_back(static_cast<int32_t>(i));
  }
  const int64_t end = static_cast<int64_t>(pattern.key_rows.size());
  for (int64_t begin = 0; begin < length; begin += stride) {
    const int64_t rows = std::min(stride, length - begin);
    const int64_t before = std::min(end, length + begin / stride * summary);
    const int64_t after = std::min(end, before + summary);
    if (part != SparsePart::kSecond) pattern.tiles.push_back({begin, rows, begin, rows});
    if (part == SparsePart::kFirst) continue;
    if (part == SparsePart::kSecond) {
      const int64_t keys = (causal ? after : end) - length;
      if (keys > 0) pattern.tiles.push_back({begin, rows, length, keys});
      continue;
    }
    if (before > length) pattern.tiles.push_back({begin, rows, length, before - length});
    if (!causal && after < end) pattern.tiles.push_back({begin, rows, after, end - after});
  }
  return pattern;
}

AttentionPattern BucketPattern(std::span<const int32_t> buckets, int64_t rounds, int64_t length,
                               int64_t bucket_count, int64_t chunk, bool causal) {
  AttentionPattern pattern;
  pattern.causal = causal;
  pattern.query_rows.resize(static_cast<size_t>(rounds * length));
  std::vector<int64_t> ends(static_cast<size_t>(bucket_count + 1));
  for (int64_t round = 0; round < rounds; ++round) {
    // A counting sort, which keeps the order within a bucket.
    const std::span<const int32_t> of = buckets.subspan(round * length, length);
    std::fill(ends.begin(), ends.end(), 0);
    for (const int32_t bucket : of) ++ends[bucket + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    for (int64_t i = 0; i < length; ++i) {
      pattern.query_rows[round * length + ends[of[i]]++] = static_cast<int32_t>(i);
    }
    int64_t begin = 0;
    for (int64_t bucket = 0; bucket < bucket_count; begin = ends[bucket++]) {
      for (int64_t first = begin; first < ends[bucket]; first += chunk) {
        const int64_t count = std::min(chunk, ends[bucket] - first);
        const int64_t keys = std::max(begin, first - chunk);
        pattern.tiles.push_back(
            {round * length + first, count, round * length + keys, first + count - keys});
      }
    }
  }
  pattern.key_rows = pattern.query_rows;
  return pattern;
}

std::vector<int64_t> QueryLengths(const Layout& layout, int64_t batch, int64_t rows) {
  return Lengths(layout.query_lengths, batch, rows);
}

std::vector<int64_t> KeyLengths(const Layout& layout, int64_t batch, int64_t rows) {
  return Lengths(layout.key_lengths.empty() ? layout.query_lengths : layout.key_lengths, batch,
                 rows);
}

void CheckLength(const char* system, int64_t length, int64_t max_length) {
  if (length <= max_length) return;
  throw Error(std::string("attention ") + system + ": a sequence of " + std::to_string(length) +
              " tokens is longer than max_length, " + std::to_string(max_length) +
              ", for which its parameters were made; shorten it, or make the model with a larger "
              "max_length");
}

const PatternCache::Item& PatternCache::Find(int64_t length) {
  const auto found = std::find_if(items_.begin(), items_.end(),
                                  [&](const Item& item) { return item.length == length; });
  if (found != items_.end()) {
    std::rotate(found, found + 1, items_.end());
    return items_.back();
  }
  Item item{length, {}};
  for (AttentionPattern& pattern : build_(length)) {
    item.patterns.push_back(std::make_shared<const AttentionPattern>(std::move(pattern)));
  }
  if (items_.size() == kCachedLengths) items_.erase(items_.begin());
  return items_.emplace_back(std::move(item));
}

std::vector<SharedPattern> PatternCache::For(std::span<const int64_t> lengths) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool alike = std::all_of(lengths.begin(), lengths.end(),
                                 [&](int64_t length) { return length == lengths.front(); });
  std::vector<SharedPattern> patterns;
  for (const int64_t length : lengths) {
    const Item& item = Find(length);
    patterns.insert(patterns.end(), item.patterns.begin(), item.patterns.end());
    if (alike && item.patterns.size() == 1) break;
  }
  return patterns;
}

void PatternCache::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  items_.clear();
}

}  // namespace cosformer::zoo
