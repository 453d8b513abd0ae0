// What linear and softmax attention promise alike: no sequence, head or future token reaches where
// it should not, and neither threads nor the layout in memory change a bit.
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "problem.h"

namespace cosformer::testing {
namespace {

constexpr float kNanValue = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfiniteValue = std::numeric_limits<float>::infinity();

template <class System>
class AttentionTest : public ::testing::Test {};

using Systems = ::testing::Types<Linear, Softmax>;
TYPED_TEST_SUITE(AttentionTest, Systems);

using Where = std::function<bool(int64_t batch, int64_t row, int64_t head)>;
const Where kNowhere = [](int64_t, int64_t, int64_t) { return false; };

void Spoil(Tensor& x, const Where& where, float value) {
  const ConstView view = std::as_const(x).view();
  for (int64_t b = 0; b < view.batch; ++b)
    for (int64_t i = 0; i < view.length; ++i)
      for (int64_t h = 0; h < view.heads; ++h)
        if (where(b, i, h)) x.SetRow(b, i, h, value);
}

// Runs a case as it is, and again with `value` in the rows `of_queries` of q and d_o and `of_keys`
// of k and v. The results outside `in_queries` (o, normaliser, dq) and `in_keys` (dk, dv) must not
// differ in a bit.
template <class System>
void ExpectStaysWithin(const Case& c, float value, const Where& of_queries, const Where& of_keys,
                       const Where& in_queries, const Where& in_keys) {
  SCOPED_TRACE(::testing::Message() << value << " in " << Describe(c));
  Problem<System> clean(c), spoilt(c);
  for (Tensor* x : {&spoilt.q, &spoilt.d_o}) Spoil(*x, of_queries, value);
  for (Tensor* x : {&spoilt.k, &spoilt.v}) Spoil(*x, of_keys, value);
  if (c.forgets) Spoil(spoilt.keep, of_keys, value);
  for (auto* p : {&clean, &spoilt}) {
    p->Forward();
    p->Backward();
  }
  const Where queries = [&](int64_t b, int64_t i, int64_t h) { return !in_queries(b, i, h); };
  const Where keys = [&](int64_t b, int64_t i, int64_t h) { return !in_keys(b, i, h); };
  ExpectSameBits("o", clean.o, spoilt.o, queries);
  ExpectSameBits("normaliser", clean.normaliser, spoilt.normaliser, queries);
  ExpectSameBits("dq", clean.dq, spoilt.dq, queries);
  ExpectSameBits("dk", clean.dk, spoilt.dk, keys);
  ExpectSameBits("dv", clean.dv, spoilt.dv, keys);
  if (c.forgets) ExpectSameBits("d_log_keep", clean.d_log_keep, spoilt.d_log_keep, keys);
}

template <class System>
Case Several(int64_t length, bool causal, int threads) {
  Case c = SelfAttention(length, 20, causal);
  c.value_dim = 17;
  c.batch = 3;
  c.kv_heads = 2;
  c.heads = 4;
  c.threads = threads;
  c.forgets = causal && std::is_same_v<System, Linear>;
  return c;
}

// Each of the three spoilers, both directions, one thread and more.
template <class Check>
void ForSpoilers(Check check) {
  for (const float value : {kNanValue, kInfiniteValue, -kInfiniteValue}) {
    for (const bool causal : {true, false}) {
      for (const int threads : {1, 2}) check(value, causal, threads);
    }
  }
}

TYPED_TEST(AttentionTest, NanAndInfStayInTheirBatchEntry) {
  ForSpoilers([](float value, bool causal, int threads) {
    const Where entry = [](int64_t b, int64_t, int64_t) { return b == 1; };
    ExpectStaysWithin<TypeParam>(Several<TypeParam>(70, causal, threads), value, entry, entry,
                                 entry, entry);
  });
}

TYPED_TEST(AttentionTest, NanAndInfStayInTheirKeyHead) {
  ForSpoilers([](float value, bool causal, int threads) {
    // Key/value head 1 of 2 serves the query heads 2 and 3 of 4.
    const Where of_queries = [](int64_t, int64_t, int64_t h) { return h >= 2; };
    const Where of_keys = [](int64_t, int64_t, int64_t h) { return h == 1; };
    ExpectStaysWithin<TypeParam>(Several<TypeParam>(70, causal, threads), value, of_queries,
                                 of_keys, of_queries, of_keys);
  });
}

TYPED_TEST(AttentionTest, NanAndInfInOneQueryHeadDoNotReachThoseThatShareItsKeys) {
  ForSpoilers([](float value, bool causal, int threads) {
    const Where query_head = [](int64_t, int64_t, int64_t h) { return h == 2; };
    const Where key_head = [](int64_t, int64_t, int64_t h) { return h == 1; };
    ExpectStaysWithin<TypeParam>(Several<TypeParam>(70, causal, threads), value, query_head,
                                 kNowhere, query_head, key_head);
  });
}

TYPED_TEST(AttentionTest, NanAndInfStayInTheirQueryRow) {
  ForSpoilers([](float value, bool causal, int threads) {
    const Where row = [](int64_t b, int64_t i, int64_t h) { return b == 0 && i == 40 && h == 0; };
    const Where keys = [](int64_t b, int64_t, int64_t h) { return b == 0 && h == 0; };
    ExpectStaysWithin<TypeParam>(Several<TypeParam>(70, causal, threads), value, row, kNowhere, row,
                                 keys);
  });
}

TYPED_TEST(AttentionTest, NanAndInfOfOneQueryOfFewStayInItsRow) {
  ForSpoilers([](float value, bool causal, int threads) {
    Case c = Several<TypeParam>(100, causal, threads);
    c.queries = 3;
    const Where row = [](int64_t b, int64_t i, int64_t h) { return b == 0 && i == 1 && h == 0; };
    const Where keys = [](int64_t b, int64_t, int64_t h) { return b == 0 && h == 0; };
    ExpectStaysWithin<TypeParam>(c, value, row, kNowhere, row, keys);
  });
}

TYPED_TEST(AttentionTest, NanAndInfStayInTheirPackedSequence) {
  ForSpoilers([](float value, bool causal, int threads) {
    Case c = Several<TypeParam>(150, causal, threads);
    c.batch = 1;
    c.query_offsets = {2, 35, 35, 72, 149};  // not on chunk boundaries, one of them empty
    const Where sequence = [](int64_t, int64_t i, int64_t) { return 35 <= i && i < 72; };
    ExpectStaysWithin<TypeParam>(c, value, sequence, sequence, sequence, sequence);
  });
}

TYPED_TEST(AttentionTest, NanAndInfInPaddingReachNothing) {
  ForSpoilers([](float value, bool causal, int threads) {
    Case c = Several<TypeParam>(100, causal, threads);
    c.query_lengths = {37, 0, 99};
    const Where padding = [&](int64_t b, int64_t i, int64_t) { return i >= c.query_lengths[b]; };
    ExpectStaysWithin<TypeParam>(c, value, padding, padding, kNowhere, kNowhere);

    c = Several<TypeParam>(100, causal, threads);
    c.batch = 1;
    c.query_offsets = {3, 40, 90};
    const Where outside = [](int64_t, int64_t i, int64_t) { return i < 3 || i >= 90; };
    ExpectStaysWithin<TypeParam>(c, value, outside, outside, kNowhere, kNowhere);
  });
}

TYPED_TEST(AttentionTest, PaddingOfQueriesAndKeysMayDiffer) {
  ForSpoilers([](float value, bool causal, int threads) {
    Case c = Several<TypeParam>(100, causal, threads);
    c.queries = 80;
    c.query_lengths = {33, 0, 80};
    c.key_lengths = {64, 5, 99};
    const Where queries = [&](int64_t b, int64_t i, int64_t) { return i >= c.query_lengths[b]; };
    const Where keys = [&](int64_t b, int64_t i, int64_t) { return i >= c.key_lengths[b]; };
    ExpectStaysWithin<TypeParam>(c, value, queries, keys, kNowhere, kNowhere);
  });
}

TYPED_TEST(AttentionTest, AFutureTokenChangesNothingInThePast) {
  for (const int threads : {1, 2}) {
    for (const int64_t prefix : {0, 45, 147}) {
      Case c = SelfAttention(150, 20);
      c.queries = c.keys - prefix;
      c.threads = threads;
      c.forgets = std::is_same_v<TypeParam, Linear>;
      Problem<TypeParam> before(c);
      before.Forward();
      for (const int64_t position : {46, 63, 64, 65, 95, 96, 128, 148, 149}) {
        for (const float value : {1e3f, kNanValue, kInfiniteValue, -kInfiniteValue}) {
          if (position < prefix) continue;
          SCOPED_TRACE(::testing::Message() << value << " at " << position << ", prefix " << prefix
                                            << ", threads " << threads);
          Problem<TypeParam> after(c);
          after.q.SetRow(0, position - prefix, 0, value);
          after.k.SetRow(0, position, 0, value);
          after.v.SetRow(0, position, 0, value);
          if (c.forgets) after.keep.SetRow(0, position, 0, value);
          after.Forward();
          const Where past = [&](int64_t, int64_t i, int64_t) { return i + prefix < position; };
          ExpectSameBits("o", before.o, after.o, past);
          ExpectSameBits("normaliser", before.normaliser, after.normaliser, past);
        }
      }
    }
  }
}

template <class System>
void ExpectThreadsChangeNothing(Case c) {
  SCOPED_TRACE(Describe(c));
  c.threads = 1;
  Problem<System> one(c);
  one.Forward();
  one.Backward();
  for (const int threads : {2, 3, 4, 7, 0}) {
    SCOPED_TRACE(::testing::Message() << threads << " threads");
    c.threads = threads;
    Problem<System> many(c);
    many.Forward();
    many.Backward();
    ExpectSameBits("o", one.o, many.o);
    ExpectSameBits("normaliser", one.normaliser, many.normaliser);
    ExpectSameBits("dq", one.dq, many.dq);
    ExpectSameBits("dk", one.dk, many.dk);
    ExpectSameBits("dv", one.dv, many.dv);
    if (one.c.forgets) ExpectSameBits("d_log_keep", one.d_log_keep, many.d_log_keep);
  }
}

TYPED_TEST(AttentionTest, ThreadsDoNotChangeABit) {
  for (uint64_t seed = 0; seed < (kSanitized ? 10 : 60); ++seed) {
    ExpectThreadsChangeNothing<TypeParam>(RandomCase(seed));
  }
}

TYPED_TEST(AttentionTest, ThreadsDoNotChangeABitOfOneLongSequence) {
  const int64_t quadratic = std::is_same_v<TypeParam, Softmax> ? 4 : 1;
  for (const int64_t length : {700 / quadratic, 1025 / quadratic, 6000 / quadratic}) {
    for (const bool causal : {true, false}) {
      Case c = SelfAttention(length, 33, causal);
      ExpectThreadsChangeNothing<TypeParam>(c);
      c.forgets = causal && std::is_same_v<TypeParam, Linear>;
      if (c.forgets) ExpectThreadsChangeNothing<TypeParam>(c);
      c.queries = length / 3;  // a prefix, or cross attention
      c.heads = 2;
      ExpectThreadsChangeNothing<TypeParam>(c);
    }
  }
}

TYPED_TEST(AttentionTest, TheLayoutInMemoryDoesNotChangeABit) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Case c = RandomCase(seed);
    c.strided = true;
    Problem<TypeParam> strided(c);
    c.strided = false;
    Problem<TypeParam> dense(c);
    const auto copy = [](const Tensor& from, Tensor& to) {
      from.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
        to.Set(b, i, h, e, from.At(b, i, h, e));
      });
    };
    copy(strided.q, dense.q);
    copy(strided.k, dense.k);
    copy(strided.v, dense.v);
    copy(strided.d_o, dense.d_o);
    copy(strided.keep, dense.keep);
    for (auto* p : {&strided, &dense}) {
      p->Forward();
      p->Backward();
    }
    SCOPED_TRACE(Describe(c));
    ExpectSameBits("o", strided.o, dense.o);
    ExpectSameBits("normaliser", strided.normaliser, dense.normaliser);
    ExpectSameBits("dq", strided.dq, dense.dq);
    ExpectSameBits("dk", strided.dk, dense.dk);
    ExpectSameBits("dv", strided.dv, dense.dv);
    if (strided.c.forgets) {
      ExpectSameBits("d_log_keep", strided.d_log_keep, dense.d_log_keep);
    }
  }
}

TYPED_TEST(AttentionTest, InputsMayRepeatByAStrideOfZero) {
  Case c = SelfAttention(50, 16);
  c.batch = 2;
  c.heads = 4;
  Problem<TypeParam> p(c);
  const auto first = [](Tensor& x) {
    ConstView view = std::as_const(x).view();
    view.batch_stride = 0;
    view.head_stride = 0;
    return view;
  };
  TypeParam::Forward(first(p.q), first(p.k), first(p.v), p.o.view(), p.Sums(),
                     TypeParam::OptionsOf(c));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t i = 0; i < 50; ++i) {
        for (int64_t e = 0; e < 16; ++e) {
          ASSERT_EQ(p.o.Bits(b, i, h, e), p.o.Bits(0, i, 0, e)) << b << ' ' << i << ' ' << h;
        }
      }
    }
  }
}

TYPED_TEST(AttentionTest, CallsMayRunSideBySide) {
  std::vector<Problem<TypeParam>> problems;
  for (int n = 0; n < 4; ++n) {
    Case c = Several<TypeParam>(120, n % 2 == 0, 1 + n % 2);
    problems.emplace_back(c);
  }
  std::vector<std::thread> callers;
  for (auto& p : problems) {
    callers.emplace_back([&p] {
      p.Forward();
      p.Backward();
    });
  }
  for (auto& caller : callers) caller.join();
  for (auto& p : problems) {
    Problem<TypeParam> alone(p.c);
    alone.Forward();
    alone.Backward();
    ExpectSameBits("o", p.o, alone.o);
    ExpectSameBits("dq", p.dq, alone.dq);
    ExpectSameBits("dk", p.dk, alone.dk);
    ExpectSameBits("dv", p.dv, alone.dv);
  }
}

}  // namespace
}  // namespace cosformer::testing
