// Softmax attention over a pattern, forward and backward, against the reference.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "errors.h"
#include "pattern_problem.h"

namespace cosformer::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// All rows in order, all rows permuted, or any rows, some of them twice.
std::vector<int32_t> RandomRows(Random& random, int64_t length) {
  std::vector<int32_t> rows;
  if (length == 0) return rows;
  rows.resize(length);
  std::iota(rows.begin(), rows.end(), 0);
  const int64_t kind = Uniform(random, 0, 2);
  if (kind == 1) std::shuffle(rows.begin(), rows.end(), random);
  if (kind == 2) {
    rows.resize(Uniform(random, 0, 2 * length));
    for (int32_t& row : rows) row = static_cast<int32_t>(Uniform(random, 0, length - 1));
  }
  return rows;
}

AttentionPattern RandomPattern(Random& random, int64_t queries, int64_t keys) {
  AttentionPattern pattern;
  pattern.query_rows = RandomRows(random, queries);
  pattern.key_rows = RandomRows(random, keys);
  pattern.causal = Uniform(random, 0, 1) == 0;
  if (Uniform(random, 0, 2) == 0) {
    // Runs of one label, as sorted buckets have them, or any.
    const int64_t run = Choose<int64_t>(random, {1, 10, 64, 100});
    const auto label = [&](auto& labels, size_t size) {
      for (size_t i = 0; i < size; ++i) {
        labels.push_back(static_cast<int32_t>(
            i % run == 0 || labels.empty() ? Uniform(random, -1, 1) : labels.back()));
      }
    };
    label(pattern.query_labels, pattern.query_rows.size());
    label(pattern.key_labels, pattern.key_rows.size());
  }
  pattern.self_penalty = Choose<float>(random, {0, 0, -2, 1.5f, -1e5f});
  const int64_t query_entries = static_cast<int64_t>(pattern.query_rows.size());
  const int64_t key_entries = static_cast<int64_t>(pattern.key_rows.size());
  const int64_t tiles = Uniform(random, 0, 5);
  for (int64_t t = 0; t < tiles; ++t) {
    AttentionPattern::Tile tile;
    if (t > 0 && Uniform(random, 0, 1) == 0) {
      tile = pattern.tiles.back();  // the queries
    } else {
      tile.query_begin = Uniform(random, 0, query_entries);
      tile.query_count = Uniform(random, 0, query_entries - tile.query_begin);
      if (Uniform(random, 0, 3) == 0) tile.query_count = std::min<int64_t>(tile.query_count, 1);
    }
    tile.key_begin = Uniform(random, 0, key_entries);
    tile.key_count = Uniform(random, 0, key_entries - tile.key_begin);
    if (Uniform(random, 0, 3) == 0) tile.key_count = std::min<int64_t>(tile.key_count, 1);
    tile.min_distance = Choose<int64_t>(random, {0, 0, 1, 5});
    tile.max_distance = Choose<int64_t>(
        random, {5, 40, 100, 1'000'000'000'000, std::numeric_limits<int64_t>::max()});
    pattern.tiles.push_back(tile);
  }
  return pattern;
}

PatternCase RandomPatternCase(uint64_t seed) {
  Random random(seed);
  PatternCase c;
  c.seed = seed;
  c.batch = Uniform(random, 1, 2);
  c.queries = Choose<int64_t>(random, {0, 1, 7, 8, 9, 60, 64, 65, 130, 300});
  c.keys = Choose<int64_t>(random, {0, 1, 15, 16, 17, 63, 64, 65, 130, 200});
  c.kv_heads = Uniform(random, 1, 2);
  c.heads = c.kv_heads * Uniform(random, 1, 2);
  const std::vector<int64_t> dims{1, 3, 8, 16, 17, 32, 63, 64, 65, 100};
  c.dim = Choose(random, dims);
  c.value_dim = Choose(random, dims);
  c.strided = Uniform(random, 0, 1) == 0;
  const auto dtype = [&] {
    return Uniform(random, 0, 3) == 0 ? DType::kBFloat16 : DType::kFloat32;
  };
  c.inputs = dtype();
  c.outputs = dtype();
  c.gradients = dtype();
  c.threads = static_cast<int>(Uniform(random, 1, 3));
  c.scale = Choose<float>(random, {0, 0.5f, -0.2f});
  const int64_t patterns = Choose<int64_t>(random, {1, c.batch, c.batch * c.heads});
  for (int64_t n = 0; n < patterns; ++n) {
    c.patterns.push_back(RandomPattern(random, c.queries, c.keys));
  }
  return c;
}

void CheckRandomPatterns(uint64_t first_seed, int count) {
  for (int n = 0; n < count && !::testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("seed " + std::to_string(first_seed + n));
    PatternProblem(RandomPatternCase(first_seed + n)).Check();
  }
}

AttentionPattern AllPairs(int64_t queries, int64_t keys, bool causal) {
  AttentionPattern pattern;
  pattern.query_rows.resize(queries);
  pattern.key_rows.resize(keys);
  std::iota(pattern.query_rows.begin(), pattern.query_rows.end(), 0);
  std::iota(pattern.key_rows.begin(), pattern.key_rows.end(), 0);
  pattern.causal = causal;
  pattern.tiles.push_back({0, queries, 0, keys});
  return pattern;
}

// Every query sees its neighbours up to `window` away, in blocks, and the first `global` rows.
PatternCase WindowCase(int64_t length, int64_t window, int64_t global, bool causal) {
  PatternCase c;
  c.queries = c.keys = length;
  c.dim = 32;
  c.value_dim = 16;
  AttentionPattern pattern = AllPairs(length, length, causal);
  pattern.tiles.clear();
  for (int64_t i = 0; i < length; i += 64) {
    const int64_t rows = std::min<int64_t>(64, length - i);
    const int64_t begin = std::max<int64_t>(global, i - window);
    const int64_t end = std::max(begin, std::min(length, i + rows + window));
    pattern.tiles.push_back({i, rows, begin, end - begin, 0, window});
    pattern.tiles.push_back({i, rows, 0, global});
  }
  c.patterns = {pattern};
  return c;
}

TEST(PatternTest, RandomPatternsAgreeWithTheReference) {
  CheckRandomPatterns(1, kSanitized ? 60 : 1500);
}

TEST(PatternTest, RandomPatternsAgreeOnEveryInstructionSet) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    CheckRandomPatterns(10'000, kSanitized ? 15 : 80);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(PatternTest, EveryNumberOfQueriesAndKeysAroundTheBlocks) {
  const std::vector<int64_t> counts{1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 129, 255, 257};
  for (const int64_t queries : counts) {
    for (const int64_t keys : counts) {
      PatternCase c;
      c.queries = queries;
      c.keys = keys;
      c.dim = 5;
      c.value_dim = 16;
      c.patterns = {AllPairs(queries, keys, (queries + keys) % 2 == 0)};
      SCOPED_TRACE(std::to_string(queries) + " queries, " + std::to_string(keys) + " keys");
      PatternProblem(c).Check();
    }
  }
}

TEST(PatternTest, WindowsWithGlobalTokens) {
  for (const int64_t window : {0, 1, 20, 64, 100}) {
    for (const bool causal : {true, false})
      PatternProblem(WindowCase(300, window, 3, causal)).Check();
  }
}

TEST(PatternTest, AllPairsAreSoftmaxAttention) {
  for (const bool causal : {true, false}) {
    PatternCase c;
    c.batch = 2;
    c.queries = c.keys = 150;
    c.heads = 4;
    c.kv_heads = 2;
    c.dim = c.value_dim = 64;
    c.patterns = {AllPairs(c.queries, c.keys, causal)};
    PatternProblem p(c);
    p.Forward();
    p.Backward();
    // The exact value stands at most a tolerance from either.
    const Exact exact = ExactOf(c, p.q, p.k, p.v, p.d_o);
    SoftmaxOptions options;
    options.causal = causal;
    PatternProblem softmax(c);
    SoftmaxAttentionForward(p.q.view(), p.k.view(), p.v.view(), softmax.o.view(),
                            softmax.LogSumExp(), options);
    SoftmaxAttentionBackward(p.q.view(), p.k.view(), p.v.view(), softmax.o.view(),
                             softmax.LogSumExp(), p.d_o.view(), softmax.dq.view(),
                             softmax.dk.view(), softmax.dv.view(), options);
    const auto values = [](const Tensor& x) {
      std::vector<double> all;
      x.ForEach(
          [&](int64_t b, int64_t i, int64_t h, int64_t e) { all.push_back(x.At(b, i, h, e)); });
      return all;
    };
    const double growth = 2 * Growth(c.dim + c.value_dim + 2 * c.keys);
    ExpectClose("o", p.o, values(softmax.o), exact.forward.magnitude, growth);
    ExpectClose("log_sum_exp", p.log_sum_exp, values(softmax.log_sum_exp),
                exact.forward.normaliser_magnitude, growth);
    ExpectClose("dq", p.dq, values(softmax.dq), exact.backward.mq, growth);
    ExpectClose("dk", p.dk, values(softmax.dk), exact.backward.mk, growth);
    ExpectClose("dv", p.dv, values(softmax.dv), exact.backward.mv, growth);
  }
}

TEST(PatternTest, APairListedTwiceCountsTwice) {
  // Value 0 for one key, 3 for the other, equal scores: 1, if the first is listed twice.
  PatternCase c;
  c.queries = 1;
  c.keys = 2;
  AttentionPattern twice_in_a_tile;
  twice_in_a_tile.query_rows = {0};
  twice_in_a_tile.key_rows = {0, 1, 0};
  twice_in_a_tile.tiles = {{0, 1, 0, 3}};
  AttentionPattern two_tiles = twice_in_a_tile;
  two_tiles.tiles = {{0, 1, 0, 2}, {0, 1, 2, 1}};
  AttentionPattern query_twice = twice_in_a_tile;
  query_twice.query_rows = {0, 0};
  query_twice.tiles = {{0, 2, 0, 1}, {0, 1, 1, 1}};
  for (const AttentionPattern& pattern : {twice_in_a_tile, two_tiles, query_twice}) {
    c.patterns = {pattern};
    PatternProblem p(c);
    p.q.Fill([] { return 0.f; });
    p.v.Set(0, 0, 0, 0, 0);
    p.v.Set(0, 1, 0, 0, 3);
    p.Check();
    EXPECT_NEAR(p.o.At(0, 0, 0, 0), 1, 1e-6);
    EXPECT_NEAR(p.log_sum_exp.At(0, 0, 0, 0), std::log(3), 1e-6);
  }
}

TEST(PatternTest, ScoresThatRiseAndFallFromTileToTileKeepTheirSum) {
  for (const float slope : {1.f, -1.f, 30.f, -30.f}) {
    PatternCase c;
    c.queries = c.keys = 200;
    c.value_dim = 16;
    c.scale = 1;
    c.patterns = {AllPairs(c.queries, c.keys, false)};
    c.patterns[0].tiles.clear();
    for (int64_t j = 0; j < 200; j += 20) {
      // Different queries each time, so that the sums go through memory.
      c.patterns[0].tiles.push_back({j / 20, 190, j, 20});
    }
    PatternProblem p(c);
    for (int64_t i = 0; i < c.keys; ++i) {
      p.q.Set(0, i, 0, 0, 1);
      p.k.Set(0, i, 0, 0, slope * static_cast<float>(i));
    }
    p.Check();
  }
}

TEST(PatternTest, QueriesThatSeeNothingYieldZeros) {
  PatternCase c = WindowCase(100, 3, 0, true);
  c.heads = 2;
  c.kv_heads = 1;
  AttentionPattern empty;
  AttentionPattern far = c.patterns[0];
  for (auto& tile : far.tiles) tile = {tile.query_begin, tile.query_count, 0, 100, 90};
  c.patterns = {empty, far};
  PatternProblem p(c);
  p.Check();
  for (int64_t i = 0; i < 100; ++i) {
    for (const int64_t h : {0, 1}) {
      if (h == 1 && i >= 90) continue;
      EXPECT_EQ(p.o.At(0, i, h, 0), 0) << "query " << i << ", head " << h;
      EXPECT_EQ(p.log_sum_exp.At(0, i, h, 0), -kInfinity);
      EXPECT_EQ(p.dq.At(0, i, h, 0), 0);
    }
  }
}

TEST(PatternTest, ResultsDoNotDependOnTheNumberOfThreads) {
  for (uint64_t seed = 0; seed < (kSanitized ? 10 : 40); ++seed) {
    PatternCase c = RandomPatternCase(500 + seed);
    c.threads = 1;
    PatternProblem one(c);
    one.Forward();
    one.Backward();
    for (const int threads : {2, 3}) {
      c.threads = threads;
      PatternProblem more(c);
      more.Forward();
      more.Backward();
      ExpectSameBits("o", one.o, more.o);
      ExpectSameBits("log_sum_exp", one.log_sum_exp, more.log_sum_exp);
      ExpectSameBits("dq", one.dq, more.dq);
      ExpectSameBits("dk", one.dk, more.dk);
      ExpectSameBits("dv", one.dv, more.dv);
    }
  }
}

TEST(PatternTest, LogSumExpIsOptional) {
  PatternProblem p(WindowCase(100, 10, 2, false));
  p.Forward();
  const Tensor with = p.o;
  p.o.Poison();
  PatternAttentionForward(p.q.view(), p.k.view(), p.v.view(), p.Patterns(), p.o.view(), {}, {});
  ExpectSameBits("o", with, p.o);
}

// What is not finite reaches those that see it, and nobody else.
TEST(PatternTest, NaNReachesOnlyThoseThatSeeIt) {
  for (uint64_t seed = 0; seed < (kSanitized ? 20 : 200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PatternCase c = RandomPatternCase(900 + seed);
    c.inputs = c.outputs = c.gradients = DType::kFloat32;
    if (c.queries == 0 || c.keys == 0) continue;
    const PatternProblem clean(c);
    const float bad = seed % 2 == 0 ? kNaN : kInfinity;
    const int64_t which = static_cast<int64_t>(seed / 2 % 4);
    PatternProblem p(c);
    const int64_t kh = Uniform(p.random, 0, c.kv_heads - 1);
    const int64_t h0 = Uniform(p.random, 0, c.heads - 1);
    const int64_t row = Uniform(p.random, 0, (which < 2 ? c.keys : c.queries) - 1);
    if (which == 0) p.k.SetRow(0, row, kh, bad);
    if (which == 1) p.v.SetRow(0, row, kh, bad);
    if (which == 2) p.q.SetRow(0, row, h0, bad);
    if (which == 3) p.d_o.SetRow(0, row, h0, bad);
    p.Forward();
    p.Backward();
    // Queries that the row touches; then the keys that those touch.
    std::vector<std::vector<bool>> query_touched(c.heads, std::vector<bool>(c.queries));
    std::vector<std::vector<bool>> key_touched(c.kv_heads, std::vector<bool>(c.keys));
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t own = h / (c.heads / c.kv_heads);
      const Pairs pairs = PairsOf(c.At(0, h), c.queries);
      for (int64_t i = 0; i < c.queries; ++i) {
        const bool sees = std::count(pairs[i].begin(), pairs[i].end(), row) > 0;
        const bool touched = which < 2 ? own == kh && sees : h == h0 && i == row;
        query_touched[h][i] = touched;
        if (!touched) continue;
        for (const int64_t j : pairs[i]) key_touched[own][j] = true;
      }
    }
    // An infinite magnitude: anything will do.
    Exact exact = ExactOf(c, clean.q, clean.k, clean.v, clean.d_o);
    const auto excuse = [](std::vector<double>& magnitude, int64_t index, int64_t size) {
      std::fill_n(magnitude.begin() + index * size, size, kInfinity);
    };
    for (int64_t h = 0; h < c.heads; ++h) {
      for (int64_t i = 0; i < c.queries; ++i) {
        if (!query_touched[h][i]) continue;
        excuse(exact.forward.magnitude, i * c.heads + h, c.value_dim);
        excuse(exact.forward.normaliser_magnitude, i * c.heads + h, 1);
        excuse(exact.backward.mq, i * c.heads + h, c.dim);
      }
    }
    for (int64_t h = 0; h < c.kv_heads; ++h) {
      for (int64_t j = 0; j < c.keys; ++j) {
        if (!key_touched[h][j]) continue;
        excuse(exact.backward.mk, j * c.kv_heads + h, c.dim);
        excuse(exact.backward.mv, j * c.kv_heads + h, c.value_dim);
      }
    }
    p.CheckAgainst(exact);
    if (which == 3) continue;
    for (int64_t i = 0; i < c.queries; ++i) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const bool sees_any = !PairsOf(c.At(0, h), c.queries)[i].empty();
        if (query_touched[h][i] && sees_any && bad != kInfinity) {
          EXPECT_TRUE(std::isnan(p.o.At(0, i, h, 0))) << "query " << i << ", head " << h;
        }
      }
    }
  }
}

TEST(PatternTest, WhatIsWrongIsSaid) {
  const PatternCase good = WindowCase(70, 5, 2, true);
  const auto expect = [&](const char* name, const std::vector<std::string>& mentions,
                          const std::function<void(PatternCase&)>& spoil) {
    PatternCase c = good;
    spoil(c);
    PatternProblem p(c);
    p.o.Poison();
    for (Tensor* gradient : {&p.dq, &p.dk, &p.dv}) gradient->Poison();
    ExpectError(name, mentions, [&] { p.Forward(); });
    ExpectError(name, mentions, [&] { p.Backward(); });
    EXPECT_TRUE(p.o.IsPoisoned()) << name;
    EXPECT_TRUE(p.dq.IsPoisoned() && p.dk.IsPoisoned() && p.dv.IsPoisoned()) << name;
  };
  using C = PatternCase&;
  expect("a query row past the end", {"query_rows[69]", "70"},
         [](C c) { c.patterns[0].query_rows[69] = 70; });
  expect("a negative query row", {"query_rows[3]", "-1"},
         [](C c) { c.patterns[0].query_rows[3] = -1; });
  expect("a key row past the end", {"key_rows[0]", "70"},
         [](C c) { c.patterns[0].key_rows[0] = 70; });
  expect("a negative key row", {"key_rows[0]", "-5"}, [](C c) { c.patterns[0].key_rows[0] = -5; });
  expect("queries past the entries", {"tile 1", "query_rows", "70"},
         [](C c) { c.patterns[0].tiles[1].query_begin = 7; });
  expect("keys past the entries", {"tile 0", "key_rows", "70"},
         [](C c) { c.patterns[0].tiles[0].key_count = 71; });
  expect("a begin past the entries", {"tile 0", "71"}, [](C c) {
    c.patterns[0].tiles[0] = {0, 1, 71, 0};
  });
  expect("a negative begin", {"tile 0", "-1"}, [](C c) { c.patterns[0].tiles[0].key_begin = -1; });
  expect("a negative count", {"tile 0", "-1"},
         [](C c) { c.patterns[0].tiles[0].query_count = -1; });
  expect("a count that overflows", {"tile 0", "9223372036854775807"},
         [](C c) { c.patterns[0].tiles[0].key_count = std::numeric_limits<int64_t>::max(); });
  expect("a negative distance", {"tile 0", "-1"},
         [](C c) { c.patterns[0].tiles[0].min_distance = -1; });
  expect("distances in the wrong order", {"tile 0", "from 6 to 5"},
         [](C c) { c.patterns[0].tiles[0].min_distance = 6; });
  expect("labels of the queries only", {"0 key_labels", "70"},
         [](C c) { c.patterns[0].query_labels.assign(70, 1); });
  expect("labels of the keys only", {"0 query_labels", "70"},
         [](C c) { c.patterns[0].key_labels.assign(70, 1); });
  expect("too few labels", {"69 key_labels", "70"}, [](C c) {
    c.patterns[0].query_labels.assign(70, 1);
    c.patterns[0].key_labels.assign(69, 1);
  });
  expect("an infinite penalty", {"self_penalty", "inf"},
         [](C c) { c.patterns[0].self_penalty = -kInfinity; });
  expect("no pattern", {"0 patterns"}, [](C c) { c.patterns.clear(); });
  expect("patterns that fit nothing", {"3 patterns", "(1)", "(1)"},
         [](C c) { c.patterns.resize(3, c.patterns[0]); });
  expect("an error in the last pattern", {"query_rows[0]"}, [](C c) {
    c.batch = 2;
    c.patterns.push_back(c.patterns[0]);
    c.patterns[1].query_rows[0] = 1000;
  });
  expect("threads", {"threads", "-1"}, [](C c) { c.threads = -1; });
  expect("scale", {"scale"}, [](C c) { c.scale = kNaN; });

  PatternProblem p(good);
  const AttentionPattern* null = nullptr;
  ExpectError("a null pattern", {"null"}, [&] {
    PatternAttentionForward(p.q.view(), p.k.view(), p.v.view(), {&null, 1}, p.o.view(), {}, {});
  });
  ExpectError("log_sum_exp of another size", {"log_sum_exp", "70"}, [&] {
    PatternAttentionForward(p.q.view(), p.k.view(), p.v.view(), p.Patterns(), p.o.view(),
                            p.LogSumExp().first(69), {});
  });
  ExpectError("no log_sum_exp for the gradients", {"log_sum_exp", "70"}, [&] {
    PatternAttentionBackward(p.q.view(), p.k.view(), p.v.view(), p.Patterns(), p.o.view(), {},
                             p.d_o.view(), p.dq.view(), p.dk.view(), p.dv.view(), {});
  });
  ExpectError("another shape", {"dq", "[1, 70, 1, 16]"}, [&] {
    PatternAttentionBackward(p.q.view(), p.k.view(), p.v.view(), p.Patterns(), p.o.view(),
                             p.LogSumExp(), p.d_o.view(), p.dv.view(), p.dk.view(), p.dv.view(),
                             {});
  });
}

}  // namespace
}  // namespace cosformer::testing
