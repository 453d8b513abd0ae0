// The key/value cache: step by step it is the parallel softmax attention.
#include <gtest/gtest.h>

#include <limits>

#include "errors.h"
#include "streams.h"

namespace cosformer::testing {
namespace {

SoftmaxCacheConfig CacheConfigOf(const Case& c) {
  return {c.batch, c.kv_heads, c.dim, c.value_dim, c.inputs};
}

void StepThroughCache(SoftmaxCache& cache, Problem<Softmax>& p, int64_t count) {
  const int64_t at = cache.position();
  cache.Step(Rows<ConstView>(p.q.view(), at, count), Rows<ConstView>(p.k.view(), at, count),
             Rows<ConstView>(p.v.view(), at, count), Rows<View>(p.o.view(), at, count),
             Softmax::OptionsOf(p.c));
}

void ExpectCached(const Problem<Softmax>& p) {
  const auto exact =
      reference::SoftmaxForward(p.q.view(), p.k.view(), p.v.view(), Softmax::OptionsOf(p.c));
  ExpectClose("o", p.o, exact.o, exact.magnitude, Softmax::ForwardGrowth(p.c));
  p.o.ExpectGuardsIntact("o");
}

void ExpectHolds(const SoftmaxCache& cache, const Problem<Softmax>& p) {
  for (const auto& [name, held, given] : {std::tuple{"Keys", cache.Keys(), std::cref(p.k)},
                                          {"Values", cache.Values(), std::cref(p.v)}}) {
    ASSERT_EQ(held.length, cache.position()) << name;
    ASSERT_EQ(held.batch, p.c.batch) << name;
    ASSERT_EQ(held.heads, p.c.kv_heads) << name;
    for (int64_t b = 0; b < held.batch; ++b)
      for (int64_t i = 0; i < held.length; ++i)
        for (int64_t h = 0; h < held.heads; ++h)
          for (int64_t e = 0; e < held.dim; ++e)
            ASSERT_EQ(reference::At(held, b, i, h, e), given.get().At(b, i, h, e))
                << name << " of token " << i;
  }
}

TEST(SoftmaxCacheTest, TokenByTokenEqualsParallel) {
  for (uint64_t seed = 0; seed < (kSanitized ? 15 : 60); ++seed) {
    const Case c = RandomStream(seed, 1 + static_cast<int64_t>(seed * 7 % 90));
    SCOPED_TRACE(Describe(c));
    Problem<Softmax> p(c);
    SoftmaxCache cache(CacheConfigOf(c));
    for (int64_t n = 0; n < c.keys; ++n) StepThroughCache(cache, p, 1);
    EXPECT_EQ(cache.position(), c.keys);
    ExpectCached(p);
    ExpectHolds(cache, p);
  }
}

TEST(SoftmaxCacheTest, AnyChunksEqualParallel) {
  for (uint64_t seed = 0; seed < (kSanitized ? 15 : 80); ++seed) {
    const Case c = RandomStream(seed, 150);
    SCOPED_TRACE(Describe(c));
    Problem<Softmax> p(c);
    SoftmaxCache cache(CacheConfigOf(c));
    for (const int64_t n : RandomCuts(p.random, c.keys, seed % 2 == 0 ? 6 : 90)) {
      StepThroughCache(cache, p, n);
    }
    ExpectCached(p);
  }
}

TEST(SoftmaxCacheTest, AppendingWithoutAttendingHoldsTheSameTokens) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Case c = RandomStream(seed, 90);
    SCOPED_TRACE(Describe(c));
    Problem<Softmax> p(c);
    SoftmaxCache stepped(CacheConfigOf(c)), appended(CacheConfigOf(c));
    const int64_t past = c.keys / 2;
    StepThroughCache(stepped, p, past);
    appended.Append(Rows<ConstView>(p.k.view(), 0, past), Rows<ConstView>(p.v.view(), 0, past));
    ExpectHolds(appended, p);
    StepThroughCache(appended, p, c.keys - past);
    ExpectCached(p);
  }
}

TEST(SoftmaxCacheTest, TruncateForgetsTheLatestTokens) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Case c = SelfAttention(80, 16);
    c.batch = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.inputs = dtype;
    Problem<Softmax> wrong(c), p(c);
    for (int64_t i = 30; i < 80; ++i) wrong.k.SetRow(0, i, 0, 100);
    SoftmaxCache cache(CacheConfigOf(c));
    StepThroughCache(cache, p, 30);
    StepThroughCache(cache, wrong, 40);
    ASSERT_EQ(cache.position(), 70);
    cache.Truncate(30);
    ASSERT_EQ(cache.position(), 30);
    ExpectHolds(cache, p);
    StepThroughCache(cache, p, 50);
    ExpectCached(p);
    cache.Truncate(80);
    ASSERT_EQ(cache.position(), 80);
    cache.Truncate(0);
    ASSERT_EQ(cache.position(), 0);
    StepThroughCache(cache, p, 80);
    ExpectCached(p);
  }
}

TEST(SoftmaxCacheTest, ACopyIsAFork) {
  Case c = SelfAttention(60, 8);
  Problem<Softmax> p(c), other(c);
  for (int64_t i = 30; i < 60; ++i) other.v.SetRow(0, i, 0, 7);
  SoftmaxCache cache(CacheConfigOf(c));
  StepThroughCache(cache, p, 30);
  SoftmaxCache fork = cache;
  StepThroughCache(fork, other, 30);
  StepThroughCache(cache, p, 30);
  ExpectCached(p);
  ExpectHolds(fork, other);
}

TEST(SoftmaxCacheTest, StepsThatDisagreeAreRefusedAndChangeNothing) {
  Case c;
  c.batch = 2;
  c.queries = c.keys = 11;
  c.kv_heads = 3;
  c.heads = 6;
  c.dim = 10;
  c.value_dim = 14;
  struct Arguments {
    ConstView q, k, v;
    View o;
  };
  const struct {
    const char* name;
    std::function<void(Arguments&)> spoil;
    std::vector<std::string> mentions;
  } table[] = {
      {"batch of q", [](auto& a) { a.q.batch = 1; }, {"1", "2"}},
      {"batch of all",
       [](auto& a) { a.q.batch = a.k.batch = a.v.batch = a.o.batch = 1; },
       {"1", "2"}},
      {"heads of k and v", [](auto& a) { a.k.heads = a.v.heads = 1; }, {"1", "3"}},
      {"heads of q", [](auto& a) { a.q.heads = a.o.heads = 5; }, {"5", "3"}},
      {"dim of q and k", [](auto& a) { a.q.dim = a.k.dim = 9; }, {"9", "10"}},
      {"dim of v and o", [](auto& a) { a.v.dim = a.o.dim = 13; }, {"13", "14"}},
      {"length of k", [](auto& a) { a.k.length = a.v.length = 9; }, {"9", "11"}},
      {"null k", [](auto& a) { a.k.data = nullptr; }, {"null"}},
      {"null o", [](auto& a) { a.o.data = nullptr; }, {"null"}},
      {"type", [](auto& a) { a.q.dtype = a.k.dtype = a.v.dtype = DType::kBFloat16; }, {"dtype"}},
  };
  for (const auto& [name, spoil, mentions] : table) {
    Problem<Softmax> p(c);
    SoftmaxCache cache(CacheConfigOf(c));
    StepThroughCache(cache, p, 5);
    p.o.Poison();
    Arguments a{p.q.view(), p.k.view(), p.v.view(), p.o.view()};
    spoil(a);
    ExpectError(name, mentions, [&] { cache.Step(a.q, a.k, a.v, a.o); });
    EXPECT_EQ(cache.position(), 5) << name;
    ExpectHolds(cache, p);
    EXPECT_TRUE(p.o.IsPoisoned()) << name;
  }
}

TEST(SoftmaxCacheTest, OptionsThatACacheCannotFollowAreRefused) {
  Case c = SelfAttention(10, 4);
  Problem<Softmax> p(c);
  SoftmaxCache cache(CacheConfigOf(c));
  const std::vector<int64_t> lengths{5};
  SoftmaxOptions bidirectional, padded, not_a_number, negative;
  bidirectional.causal = false;
  padded.sequences.query_lengths = lengths;
  not_a_number.scale = std::numeric_limits<float>::quiet_NaN();
  negative.threads = -1;
  for (const auto& [options, mention] : {std::pair{bidirectional, "causal"},
                                         {padded, "sequences"},
                                         {not_a_number, "scale"},
                                         {negative, "threads"}}) {
    ExpectError(mention, {mention}, [&, &options = options] {
      cache.Step(p.q.view(), p.k.view(), p.v.view(), p.o.view(), options);
    });
    EXPECT_EQ(cache.position(), 0);
    EXPECT_TRUE(p.o.IsPoisoned());
  }
}

TEST(SoftmaxCacheTest, TruncateOutsideTheTextIsRefused) {
  Case c = SelfAttention(10, 4);
  Problem<Softmax> p(c);
  SoftmaxCache cache(CacheConfigOf(c));
  StepThroughCache(cache, p, 10);
  EXPECT_THROW(cache.Truncate(11), Error);
  EXPECT_THROW(cache.Truncate(-1), Error);
  EXPECT_EQ(cache.position(), 10);
}

TEST(SoftmaxCacheTest, ConfigurationsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(SoftmaxCache({0, 1, 4, 4}), Error);
  EXPECT_THROW(SoftmaxCache({1, -1, 4, 4}), Error);
  EXPECT_THROW(SoftmaxCache({1, 1, 0, 4}), Error);
  EXPECT_THROW(SoftmaxCache({1, 1, 4, 0}), Error);
}

}  // namespace
}  // namespace cosformer::testing
