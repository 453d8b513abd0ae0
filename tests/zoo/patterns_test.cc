// The patterns pair by pair against their definitions, how many pairs they list, and the systems
// made of them (local, longformer, bigbird, sparse) against softmax over the pairs defined here.
#include "zoo/patterns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/zoo/naive.h"

namespace cosformer::testing {
namespace {

using zoo::SparsePart;

const std::vector<Direction> kDirections = {Direction::kCausal, Direction::kBidirectional};
const std::vector<int64_t> kLengths = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 130, 300};

// How often each pair counts, [length, length].
std::vector<std::vector<int>> Expanded(const AttentionPattern& pattern, int64_t length) {
  std::vector<std::vector<int>> counts(static_cast<size_t>(length),
                                       std::vector<int>(static_cast<size_t>(length), 0));
  for (const auto& tile : pattern.tiles) {
    for (int64_t a = 0; a < tile.query_count; ++a) {
      for (int64_t b = 0; b < tile.key_count; ++b) {
        const int64_t i = pattern.query_rows.at(tile.query_begin + a);
        const int64_t j = pattern.key_rows.at(tile.key_begin + b);
        const int64_t distance = std::abs(i - j);
        if (distance < tile.min_distance || distance > tile.max_distance) continue;
        if (pattern.causal && j > i) continue;
        ++counts.at(i).at(j);
      }
    }
  }
  return counts;
}

void ExpectPattern(const std::string& name, const AttentionPattern& pattern, int64_t length,
                   const std::function<bool(int64_t i, int64_t j)>& sees) {
  const auto counts = Expanded(pattern, length);
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t j = 0; j < length; ++j) {
      ASSERT_EQ(counts[i][j], sees(i, j) ? 1 : 0)
          << name << " of length " << length << ": query " << i << ", key " << j;
    }
  }
}

// Pairs in the tiles: what the kernel may have to look at.
int64_t Listed(const AttentionPattern& pattern) {
  int64_t pairs = 0;
  for (const auto& tile : pattern.tiles) pairs += tile.query_count * tile.key_count;
  return pairs;
}

bool Strided(int64_t i, int64_t j, int64_t stride, SparsePart part) {
  const bool near = std::abs(i - j) < stride;
  const bool column = (i - j) % stride == 0;
  return part == SparsePart::kFirst ? near : part == SparsePart::kSecond ? column : near || column;
}

bool Fixed(int64_t i, int64_t j, int64_t stride, int64_t summary, SparsePart part) {
  const bool own = i / stride == j / stride;
  const bool last = j % stride >= stride - summary;
  return part == SparsePart::kFirst ? own : part == SparsePart::kSecond ? last : own || last;
}

TEST(PatternsTest, EachPairIsListedOnceWhereItsDefinitionSeesIt) {
  for (const int64_t n : kLengths) {
    for (const bool causal : {false, true}) {
      const auto past = [&](int64_t i, int64_t j) { return !causal || j <= i; };
      for (const int64_t size : {1, 3, 8, 64, 70, 400}) {
        ExpectPattern("local", zoo::LocalPattern(n, size, causal), n,
                      [&](int64_t i, int64_t j) { return past(i, j) && i / size == j / size; });
        for (const int64_t first : {0, 1, 5}) {
          ExpectPattern("window", zoo::WindowPattern(n, size, first, causal), n,
                        [&](int64_t i, int64_t j) {
                          return past(i, j) && i >= first && std::abs(i - j) <= size;
                        });
        }
        for (const SparsePart part : {SparsePart::kBoth, SparsePart::kFirst, SparsePart::kSecond}) {
          ExpectPattern(
              "strided", zoo::StridedPattern(n, size, part, causal), n,
              [&](int64_t i, int64_t j) { return past(i, j) && Strided(i, j, size, part); });
          for (const int64_t summary : {int64_t{1}, (size + 1) / 2, size}) {
            ExpectPattern("fixed", zoo::FixedPattern(n, size, summary, part, causal), n,
                          [&](int64_t i, int64_t j) {
                            return past(i, j) && Fixed(i, j, size, summary, part);
                          });
          }
        }
        if (causal) continue;
        for (const int64_t globals : {0, 1, 4, 20}) {
          for (const bool queries : {false, true}) {
            ExpectPattern("longformer", zoo::LongformerPattern(n, size, globals, queries, causal),
                          n, [&](int64_t i, int64_t j) {
                            if (i < globals) return queries;
                            return j < globals || std::abs(i - j) <= size;
                          });
          }
        }
      }
    }
  }
}

TEST(PatternsTest, BigBirdSeesWindowGlobalsAndSoManyRandomBlocks) {
  for (const int64_t n : kLengths) {
    for (const int64_t block : {1, 4, 16, 64}) {
      for (const int64_t window : {1, 3, 5}) {
        for (const int64_t random : {0, 1, 3}) {
          for (const int64_t globals : {0, 1, 2, 4}) {
            const zoo::BigBirdBlocks blocks{block, window, random, (globals + 1) / 2, globals / 2};
            const auto counts = Expanded(zoo::BigBirdPattern(n, blocks, 7), n);
            const int64_t all = (n + block - 1) / block;
            const auto global = [&](int64_t b) {
              return b < (globals + 1) / 2 || b >= all - globals / 2;
            };
            for (int64_t i = 0; i < n; ++i) {
              std::set<int64_t> extra, left;
              for (int64_t j = 0; j < n; ++j) {
                const int64_t a = i / block, b = j / block;
                ASSERT_LE(counts[i][j], 1);
                if (global(a) || global(b) || 2 * std::abs(a - b) < window) {
                  ASSERT_EQ(counts[i][j], 1) << "block " << a << " to " << b << " of " << all;
                } else {
                  left.insert(b);
                  if (counts[i][j] == 1) extra.insert(b);
                  // Whole blocks, the same for all queries of a block.
                  ASSERT_EQ(counts[i][j], counts[a * block][b * block]);
                }
              }
              ASSERT_EQ(static_cast<int64_t>(extra.size()),
                        std::min<int64_t>(random, static_cast<int64_t>(left.size())));
            }
          }
        }
      }
    }
  }
}

TEST(PatternsTest, RandomBlocksAreSpreadAndFollowTheSeed) {
  const int64_t blocks = 40, n = blocks * 2;
  const zoo::BigBirdBlocks config{2, 1, 3, 0, 0};
  std::vector<int> hits(static_cast<size_t>(blocks), 0);
  const int seeds = 200;
  for (int seed = 0; seed < seeds; ++seed) {
    const auto counts = Expanded(zoo::BigBirdPattern(n, config, seed), n);
    for (int64_t j = 0; j < blocks; ++j) hits[j] += counts[0][2 * j];
    EXPECT_EQ(counts, Expanded(zoo::BigBirdPattern(n, config, seed), n));
    EXPECT_NE(counts, Expanded(zoo::BigBirdPattern(n, config, seed + 1), n));
  }
  EXPECT_EQ(hits[0], seeds);
  // 3 of 39, 200 times: 15.4 on average, with a deviation of 3.8.
  for (int64_t j = 1; j < blocks; ++j) {
    EXPECT_GT(hits[j], 0) << j;
    EXPECT_LT(hits[j], 40) << j;
  }
}

TEST(PatternsTest, WhatIsListedGrowsAsTheCostThatWasPublished) {
  for (const bool causal : {false, true}) {
    for (const int64_t n : {1024, 4096, 16384}) {
      const int64_t l = std::llround(std::sqrt(static_cast<double>(n)));
      const double per_query_sparse = 2 * l + 256 + 64 + n / l;  // windows are cut at 256 by 64
      EXPECT_LE(Listed(zoo::StridedPattern(n, l, SparsePart::kBoth, causal)), n * per_query_sparse);
      EXPECT_LE(Listed(zoo::FixedPattern(n, l, 8, SparsePart::kBoth, causal)), n * (l + 8 * n / l));
      EXPECT_LE(Listed(zoo::LocalPattern(n, 64, causal)), n * 64);
      EXPECT_LE(Listed(zoo::LongformerPattern(n, 64, causal ? 0 : 2, true, causal)),
                n * (256 + 64 + 2 * 64 + 4));
      std::vector<int32_t> buckets(static_cast<size_t>(2 * n));
      for (int64_t i = 0; i < 2 * n; ++i) buckets[i] = static_cast<int32_t>(i * i % 7 * (i % 3));
      EXPECT_LE(Listed(zoo::BucketPattern(buckets, 2, n, 14, 64, causal)), 2 * n * 128);
    }
  }
  for (const int64_t n : {1024, 4096, 16384}) {
    // 3 + 3 + 2 blocks a query, and all keys for the queries of two blocks.
    EXPECT_LE(Listed(zoo::BigBirdPattern(n, {}, 3)), n * 8 * 64 + 2 * 64 * n);
  }
}

TEST(PatternsTest, TheCacheKeepsTheLatestAndForgetsTheOldest) {
  int built = 0;
  zoo::PatternCache cache([&](int64_t length) {
    ++built;
    return std::vector{zoo::LocalPattern(length, 4, true)};
  });
  const std::vector<int64_t> alike = {5, 5, 5}, mixed = {5, 6, 5};
  EXPECT_EQ(cache.For(alike).size(), 1u);
  const auto patterns = cache.For(mixed);
  ASSERT_EQ(patterns.size(), 3u);
  EXPECT_EQ(patterns[0], patterns[2]);
  EXPECT_EQ(patterns[1]->query_rows.size(), 6u);
  EXPECT_EQ(built, 2);
  for (int64_t n = 10; n < 200; ++n) {
    cache.For(std::vector{n});
    cache.For(std::vector{int64_t{5}});
  }
  EXPECT_EQ(built, 192) << "length 5 was in use all the time";
  cache.For(std::vector{int64_t{10}});
  EXPECT_EQ(built, 193) << "the cache must be bounded";
  cache.Clear();
  cache.For(std::vector{int64_t{5}});
  EXPECT_EQ(built, 194);
}

// Softmax over pairs of the rows' own positions.
Definition Masked(const Problem& p, const Sees& sees) {
  const bool causal = p.geometry.causal();
  const int64_t heads = p.geometry.heads;
  return [=](const Exact& e) {
    const Tensor counts = Counts(e.query_lengths, e.key_lengths, heads, e.q.size(1), e.k.size(1),
                                 [&](int64_t length, int64_t h, int64_t i, int64_t j) {
                                   return causal && j > i ? 0.0 : sees(length, h, i, j);
                                 });
    return NaiveSoftmax(e.q, e.k, e.v, counts);
  };
}

void ExpectMasked(const std::string& system, const std::string& options,
                  const std::vector<Direction>& directions, int64_t max_length, const Sees& sees) {
  for (const Problem& p : Shapes(system, options, directions, max_length)) {
    const auto made = MakeSystem(p);
    ExpectAgrees(p, *made, Masked(p, sees));
    if (p.geometry.causal()) ExpectCausal(p, *made);
  }
}

TEST(LocalTest, IsSoftmaxWithinBlocks) {
  ExpectMasked("local", R"({"block": 7})", kDirections, 41,
               [](int64_t, int64_t, int64_t i, int64_t j) { return i / 7 == j / 7; });
  ExpectMasked("local", "{}", kDirections, 150,
               [](int64_t, int64_t, int64_t i, int64_t j) { return i / 64 == j / 64; });
  ExpectMasked("local", R"({"block": 41})", kDirections, 41,
               [](int64_t, int64_t, int64_t, int64_t) { return 1; });
}

TEST(LocalTest, Streams) {
  for (const Problem& p : Shapes("local", R"({"block": 7})", {Direction::kCausal}, 50)) {
    if (p.lengths.empty()) ExpectStreams(p, *MakeSystem(p));
  }
}

TEST(SparseTest, IsSoftmaxOverBothFactors) {
  ExpectMasked(
      "sparse-strided", R"({"stride": 6})", kDirections, 55,
      [](int64_t, int64_t, int64_t i, int64_t j) { return Strided(i, j, 6, SparsePart::kBoth); });
  ExpectMasked(
      "sparse-fixed", R"({"stride": 6, "summary": 2})", kDirections, 55,
      [](int64_t, int64_t, int64_t i, int64_t j) { return Fixed(i, j, 6, 2, SparsePart::kBoth); });
  // sqrt(300) = 17.3, to a multiple of 8.
  ExpectMasked(
      "sparse-strided", "{}", kDirections, 300,
      [](int64_t, int64_t, int64_t i, int64_t j) { return Strided(i, j, 16, SparsePart::kBoth); });
  ExpectMasked("sparse-fixed", "{}", kDirections, 300, [](int64_t, int64_t, int64_t i, int64_t j) {
    return Fixed(i, j, 16, 8, SparsePart::kBoth);
  });
}

TEST(SparseTest, SplitHeadsTakeOneFactorEach) {
  for (const Problem& p :
       Shapes("sparse-strided", R"({"stride": 6, "heads": "split"})", kDirections, 55)) {
    ExpectAgrees(p, Masked(p, [&](int64_t, int64_t h, int64_t i, int64_t j) {
                   const bool first = 2 * h < p.geometry.heads;
                   return Strided(i, j, 6, first ? SparsePart::kFirst : SparsePart::kSecond);
                 }));
  }
  for (const Problem& p : Shapes("sparse-fixed", R"({"stride": 6, "summary": 2, "heads": "split"})",
                                 kDirections, 55)) {
    ExpectAgrees(p, Masked(p, [&](int64_t, int64_t h, int64_t i, int64_t j) {
                   const bool first = 2 * h < p.geometry.heads;
                   return Fixed(i, j, 6, 2, first ? SparsePart::kFirst : SparsePart::kSecond);
                 }));
  }
}

TEST(LongformerTest, IsSoftmaxOverWindowAndGlobals) {
  ExpectMasked("longformer", R"({"window": 5, "globals": 3, "global_projections": false})",
               {Direction::kBidirectional}, 60, [](int64_t, int64_t, int64_t i, int64_t j) {
                 return i < 3 || j < 3 || std::abs(i - j) <= 5;
               });
  ExpectMasked("longformer", R"({"window": 5})", {Direction::kCausal}, 60,
               [](int64_t, int64_t, int64_t i, int64_t j) { return i - j <= 5; });
  ExpectMasked("longformer", "{}", {Direction::kCausal}, 320,
               [](int64_t, int64_t, int64_t i, int64_t j) { return i - j <= 20; });
}

TEST(LongformerTest, GlobalTokensHaveProjectionsOfTheirOwn) {
  for (const int64_t globals : {1, 4}) {
    const std::string options = R"({"window": 5, "globals": )" + std::to_string(globals) + "}";
    for (const Problem& p : Shapes("longformer", options, {Direction::kBidirectional}, 60)) {
      const zoo::Geometry& g = p.geometry;
      ExpectAgrees(p, [&](const Exact& e) {
        const Sees window = [&](int64_t, int64_t, int64_t i, int64_t j) {
          return j < globals || std::abs(i - j) <= 5;
        };
        const Tensor o = Masked(p, window)(e);
        const auto heads = [&](const Tensor& rows, int64_t count, int64_t dim) {
          return rows.reshape({p.batch, p.n, count, dim});
        };
        const Tensor q = torch::linear(e.x, e.parameters.at("global_query_weight"),
                                       e.parameters.at("global_query_bias"));
        const Tensor kv = torch::linear(e.x, e.parameters.at("global_key_value_weight"),
                                        e.parameters.at("global_key_value_bias"));
        const int64_t keys = g.kv_heads * g.dim, values = g.kv_heads * g.value_dim;
        const Tensor all =
            NaiveSoftmax(heads(q, g.heads, g.dim), heads(kv.narrow(2, 0, keys), g.kv_heads, g.dim),
                         heads(kv.narrow(2, keys, values), g.kv_heads, g.value_dim),
                         Counts(e.query_lengths, e.key_lengths, g.heads, p.n, p.n,
                                [](int64_t, int64_t, int64_t, int64_t) { return 1; }));
        const int64_t first = std::min(globals, p.n);
        return torch::cat({all.narrow(1, 0, first), o.narrow(1, first, p.n - first)}, 1);
      });
    }
  }
}

TEST(LongformerTest, StreamsInMemoryThatDoesNotGrow) {
  for (const Problem& p : Shapes("longformer", R"({"window": 6})", {Direction::kCausal}, 50)) {
    if (!p.lengths.empty()) continue;
    const auto system = MakeSystem(p);
    ExpectStreams(p, *system);
    const auto stream = system->NewStream(p.batch);
    const zoo::Geometry& g = p.geometry;
    EXPECT_EQ(stream->bytes(), sizeof(float) * p.batch * g.kv_heads * 7 * (g.dim + g.value_dim));
  }
}

// The weights of a system whose queries and keys are zero: one over the number of keys that a
// query sees, where it sees.
Tensor Uniform(zoo::System& system, const Problem& p) {
  torch::NoGradGuard no_grad;
  const zoo::Geometry& g = p.geometry;
  zoo::Inputs inputs;
  inputs.q = torch::zeros({1, p.n, g.heads, g.dim});
  inputs.k = torch::zeros({1, p.n, g.kv_heads, g.dim});
  inputs.v = torch::eye(p.n).view({1, p.n, 1, p.n}).expand({1, p.n, g.kv_heads, p.n});
  inputs.x = torch::zeros({1, p.n, g.width});
  return system.Forward(inputs)[0].permute({1, 0, 2}).contiguous();  // [heads, n, n]
}

TEST(BigBirdTest, IsSoftmaxOverTheBlocksThatItSees) {
  const std::string options = R"({"block": 4, "random_blocks": 2})";
  for (const Problem& p : Shapes("bigbird", options, {Direction::kBidirectional}, 90)) {
    const auto system = MakeSystem(p);
    // What is seen depends on the sequence's length: found out for each.
    std::map<int64_t, Tensor> seen;
    for (const int64_t length : p.QueryLengths()) {
      Problem of = p;
      of.n = length;
      if (length > 0) seen[length] = Uniform(*system, of);
    }
    ExpectAgrees(p, *system, Masked(p, [&](int64_t length, int64_t h, int64_t i, int64_t j) {
                   const Tensor& s = seen.at(length);
                   return s.data_ptr<float>()[(h * length + i) * length + j] > 0;
                 }));
  }
}

TEST(BigBirdTest, WithoutRandomBlocksIsWindowAndGlobals) {
  const std::string options = R"({"block": 5, "random_blocks": 0, "global_blocks": 3})";
  ExpectMasked("bigbird", options, {Direction::kBidirectional}, 90,
               [](int64_t length, int64_t, int64_t i, int64_t j) {
                 const int64_t a = i / 5, b = j / 5, last = (length - 1) / 5;
                 return a < 2 || b < 2 || a == last || b == last || std::abs(a - b) <= 1;
               });
}

TEST(BigBirdTest, RandomBlocksDifferByHeadAndLayerAndComeWithTheWeights) {
  Problem p{.system = "bigbird", .options = R"({"block": 4})"};
  p.geometry = {Direction::kBidirectional, 12, 4, 2, 8, 8, 200};
  p.n = 200;
  const auto one = MakeSystem(p);
  const Tensor seen = Uniform(*one, p);
  EXPECT_FALSE(torch::equal(seen[0], seen[1]));
  EXPECT_TRUE(torch::equal(seen, Uniform(*one, p)));
  Problem next = p;
  next.seed = 2;
  const auto other = MakeSystem(next);
  EXPECT_FALSE(torch::equal(seen, Uniform(*other, p)));
  {
    torch::NoGradGuard no_grad;
    ASSERT_EQ(other->named_buffers().size(), 1u);
    other->named_buffers().begin()->value().copy_(one->named_buffers().begin()->value());
  }
  EXPECT_TRUE(torch::equal(seen, Uniform(*other, p)));
  p.options = next.options = R"({"block": 4, "seed": 99})";
  EXPECT_TRUE(torch::equal(Uniform(*MakeSystem(p), p), Uniform(*MakeSystem(next), p)));
}

TEST(PatternSystemsTest, WithFullPatternsAreSoftmax) {
  const std::pair<const char*, const char*> full[] = {
      {"local", R"({"block": 50})"},           {"sparse-strided", R"({"stride": 1})"},
      {"sparse-strided", R"({"stride": 50})"}, {"sparse-fixed", R"({"stride": 10, "summary": 10})"},
      {"longformer", R"({"window": 50})"},     {"bigbird", R"({"block": 5, "random_blocks": 10})"},
      {"bigbird", R"({"block": 50})"},
  };
  for (const auto& [name, options] : full) {
    for (const Direction direction : kDirections) {
      const bool causal = direction == Direction::kCausal;
      const zoo::Entry& entry = zoo::FindEntry(name);
      if (causal && !entry.abilities.causal) continue;
      Problem p{.system = name, .options = options};
      p.geometry = {direction, 12, 4, 2, 16, 16, 50};
      p.n = 50;
      if (p.system == "longformer" && !causal) p.options = R"({"window": 50, "globals": 0})";
      SCOPED_TRACE(Describe(p));
      const auto system = MakeSystem(p);
      const zoo::Inputs inputs = RandomInputs(p, *system);
      SoftmaxOptions softmax;
      softmax.causal = causal;
      ExpectClose("o", system->Forward(inputs),
                  SoftmaxAttention(inputs.q, inputs.k, inputs.v, softmax).to(torch::kFloat64),
                  GrowthOf(50 + 16, 10));
    }
  }
}

TEST(PatternSystemsTest, OptionsOutOfRangeAreRefused) {
  const struct {
    const char* system;
    const char* options;
    Direction direction;
    std::vector<std::string> mentions;
  } table[] = {
      {"local", R"({"block": 0})", Direction::kCausal, {"local", "block", "0"}},
      {"local", R"({"block": 101})", Direction::kCausal, {"block", "101", "100"}},
      {"sparse-strided", R"({"stride": 101})", Direction::kCausal, {"stride", "101", "100"}},
      {"sparse-strided", R"({"summary": 4})", Direction::kCausal, {"summary"}},
      {"sparse-strided", R"({"heads": "half"})", Direction::kCausal, {"heads", "half", "split"}},
      {"sparse-fixed", R"({"stride": 6, "summary": 7})", Direction::kCausal, {"summary", "7", "6"}},
      {"longformer", R"({"window": 0})", Direction::kCausal, {"window", "0"}},
      {"longformer", R"({"globals": 1})", Direction::kCausal, {"globals", "1", "causal"}},
      {"bigbird",
       R"({"window_blocks": 2})",
       Direction::kBidirectional,
       {"window_blocks", "2", "odd"}},
      {"bigbird", R"({"random_blocks": -1})", Direction::kBidirectional, {"random_blocks", "-1"}},
      {"reformer", R"({"buckets": 3})", Direction::kCausal, {"buckets", "3", "even"}},
      {"reformer", R"({"rounds": 0})", Direction::kCausal, {"rounds", "0"}},
      {"linformer", R"({"k": 101})", Direction::kBidirectional, {"k", "101", "100"}},
      {"linformer", R"({"sharing": "layer"})", Direction::kBidirectional, {"sharing", "layer"}},
      {"synthesizer", R"({"kind": "dance"})", Direction::kCausal, {"kind", "dance", "dense"}},
      {"synthesizer", R"({"rank": 4})", Direction::kCausal, {"rank"}},
      {"sinkhorn", R"({"iterations": 0})", Direction::kCausal, {"iterations", "0"}},
      {"sinkhorn", R"({"temperature": 0})", Direction::kCausal, {"temperature", "0"}},
      {"sinkhorn", R"({"block": 101})", Direction::kCausal, {"block", "101", "100"}},
  };
  for (const auto& [system, options, direction, mentions] : table) {
    Problem p{.system = system, .options = options};
    p.geometry = {direction, 12, 4, 2, 8, 8, 100};
    SCOPED_TRACE(Describe(p));
    ExpectRefused([&] { MakeSystem(p); }, mentions);
  }
  Problem p{.system = "sparse-fixed", .options = R"({"heads": "split"})"};
  p.geometry = {Direction::kCausal, 12, 1, 1, 8, 8, 100};
  ExpectRefused([&] { MakeSystem(p); }, {"split", "2 heads", "merged"});
}

}  // namespace
}  // namespace cosformer::testing
