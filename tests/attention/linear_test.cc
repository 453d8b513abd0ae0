// Linear attention in one call, forward and backward, against the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "problem.h"

namespace cosformer::testing {
namespace {

class LinearRandomTest : public ::testing::TestWithParam<FeatureMap> {};

TEST_P(LinearRandomTest, AgreesWithTheReference) {
  CheckRandomCases<Linear>(1000 * (1 + static_cast<int>(GetParam())), kSanitized ? 60 : 600,
                           [](Case& c) { c.kernel.feature_map = GetParam(); });
}

INSTANTIATE_TEST_SUITE_P(EveryFeatureMap, LinearRandomTest, ::testing::ValuesIn(AllFeatureMaps()),
                         [](const auto& info) { return Name(info.param); });

TEST(LinearTest, EveryLengthToTwoChunksAndOne) {
  for (int64_t length = 0; length <= 2 * kChunk + 1; ++length) {
    for (const bool causal : {true, false}) {
      for (const Reweighting reweighting : {Reweighting::kCos, Reweighting::kNone}) {
        Case c = SelfAttention(length, 20, causal);
        c.seed = length;
        c.kernel.reweighting = reweighting;
        c.threads = 1 + static_cast<int>(length % 3);
        Problem<Linear>(c).Check();
      }
    }
  }
}

TEST(LinearTest, EveryNumberOfQueriesAgainstAPrefix) {
  const int64_t keys = 2 * kChunk + 1;
  for (int64_t queries = 0; queries <= keys; ++queries) {
    Case c = SelfAttention(keys, 5);
    c.seed = queries;
    c.queries = queries;
    c.kernel.horizon = keys + queries % 2;
    Problem<Linear>(c).Check();
  }
}

TEST(LinearTest, EveryPairOfLengthsInCrossAttention) {
  const std::vector<int64_t> lengths{0, 1, 2, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk + 1};
  for (const int64_t queries : lengths) {
    for (const int64_t keys : lengths) {
      Case c = SelfAttention(std::max(queries, keys), 7, false);
      c.queries = queries;
      c.keys = keys;
      Problem<Linear>(c).Check();
    }
  }
}

TEST(LinearTest, EveryDim) {
  std::vector<int64_t> dims;
  for (int64_t dim = 1; dim <= 34; ++dim) dims.push_back(dim);
  dims.insert(dims.end(), {47, 48, 49, 63, 64, 65, 96, 127, 128, 129, 200, 256});
  for (const int64_t dim : dims) {
    for (const int64_t value_dim : {int64_t{1}, dim, 257 - dim}) {
      Case c = SelfAttention(kChunk + 3, dim, (dim + value_dim) % 2 == 0);
      c.value_dim = value_dim;
      c.heads = 2;
      c.seed = dim;
      Problem<Linear>(c).Check();
    }
  }
}

TEST(LinearTest, ManyHeadsOfManySequences) {
  // More of them than threads, and than what is worked on in step; some of one shape, some not.
  for (const int threads : {1, 2, 3}) {
    for (const bool causal : {true, false}) {
      Case c = SelfAttention(70, 32, causal);
      c.batch = 5;
      c.heads = c.kv_heads = 8;
      c.threads = threads;
      Problem<Linear>(c).Check();
      c.query_lengths = {70, 70, 0, 33, 1};
      Problem<Linear>(c).Check();
    }
  }
}

// Rows of a long text cost the reference O(N) each; a loss on few rows keeps its gradients cheap.
void CheckLongText(Case c, const std::vector<int64_t>& rows) {
  SCOPED_TRACE(Describe(c));
  Problem<Linear> p(c);
  p.d_o.Fill([] { return 0.f; });
  for (const int64_t row : rows) {
    for (int64_t h = 0; h < c.heads; ++h) {
      p.d_o.SetRow(0, row, h, std::normal_distribution<float>()(p.random));
    }
  }
  p.Forward();
  for (const int64_t row : rows) ExpectRow(p, row);
  p.CheckBackward();
}

TEST(LinearTest, LengthOf65536Causal) {
  Case c = SelfAttention(65536, 64);
  c.threads = 2;
  CheckLongText(c, {0, 1, 31, 32, 4095, 32767, 32768, 65534, 65535});
}

TEST(LinearTest, LengthOf65536Bidirectional) {
  Case c = SelfAttention(65536, 33, false);
  c.heads = 2;
  c.threads = 2;
  CheckLongText(c, {0, 31, 32768, 65535});
}

TEST(LinearTest, LengthOf65536WithoutReweighting) {
  Case c = SelfAttention(65536, 20);
  c.kernel.reweighting = Reweighting::kNone;
  c.kernel.feature_map = FeatureMap::kEluPlusOne;
  CheckLongText(c, {0, 32767, 65535});
}

TEST(LinearTest, AHorizonAsShortAsTheTextIsEnough) {
  // The weight of the farthest key is then cos(pi/2 (M - 1) / M): the smallest there is.
  for (const int64_t length : {1, 2, 31, 100, 1000}) {
    for (const int64_t spare : {0, 1, 2}) {
      for (const bool causal : {true, false}) {
        Case c = SelfAttention(length, 4, causal);
        c.kernel.horizon = length + spare;
        Problem<Linear>(c).Check();
      }
    }
  }
}

TEST(LinearTest, OutputsOfAPrefixAreThoseOfTheText) {
  Case c = SelfAttention(100, 16);
  Problem<Linear> text(c);
  text.Forward();
  const auto exact =
      reference::LinearForward(text.q.view(), text.k.view(), text.v.view(), Linear::OptionsOf(c));
  for (const int64_t length : {1, 31, 32, 33, 64, 77, 99}) {
    Problem<Linear> prefix(c);  // the same numbers, of which the call sees the first rows
    prefix.o.Poison();
    const auto first = [&](auto view) {
      view.length = length;
      return view;
    };
    LinearAttentionForward(first(prefix.q.view()), first(prefix.k.view()), first(prefix.v.view()),
                           first(prefix.o.view()), {}, Linear::OptionsOf(c));
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t e = 0; e < c.value_dim; ++e) {
        const double tolerance = Tolerance(2 * Linear::ForwardGrowth(c),
                                           exact.magnitude[i * c.value_dim + e], 0, c.outputs);
        EXPECT_NEAR(prefix.o.At(0, i, 0, e), text.o.At(0, i, 0, e), tolerance);
      }
    }
  }
}

TEST(LinearTest, QueriesThatAreAllNegativeYieldZeros) {
  for (const bool causal : {true, false}) {
    Problem<Linear> p(SelfAttention(50, 20, causal));
    p.q.Fill([] { return -0.5f; });
    p.Check();
    p.o.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
      EXPECT_EQ(p.o.At(b, i, h, e), 0) << "row " << i;
    });
  }
}

TEST(LinearTest, KeysThatAreAllZeroYieldZeros) {
  for (const FeatureMap map :
       {FeatureMap::kRelu, FeatureMap::kLeakyRelu, FeatureMap::kIdentity, FeatureMap::kGiven}) {
    for (const bool causal : {true, false}) {
      for (const float key : {0.f, -0.f}) {
        Case c = SelfAttention(50, 20, causal);
        c.kernel.feature_map = map;
        Problem<Linear> p(c);
        p.k.Fill([key] { return key; });
        p.Check();
        p.o.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
          EXPECT_EQ(p.o.At(b, i, h, e), 0) << "row " << i;
        });
      }
    }
  }
}

// Each magnitude alone, mixed within one text, and against each other. Left out are queries, keys
// and values of 1e15 all at once, and of 1e-15: their numerators, 1e45 and 1e-45, are no float32.
TEST(LinearTest, ValuesOf1e15And1eMinus15) {
  const std::vector<double> sizes{1e-15, 1, 1e15};
  int compared = 0;
  for (const double q : sizes) {
    for (const double k : sizes) {
      for (const double v : sizes) {
        if (q * k * v > 1e31 || q * k * v < 1e-31) continue;
        for (const bool mixed : {false, true}) {
          for (const FeatureMap map : {FeatureMap::kRelu, FeatureMap::kIdentity}) {
            Case c = SelfAttention(70, 20, compared % 2 == 0);
            c.seed = ++compared;
            c.kernel.feature_map = map;
            // Below every normaliser that is not zero, or as usual and above some.
            c.kernel.epsilon = compared % 3 == 0 ? 1e-6f : 1e-36f;
            Problem<Linear> p(c);
            const auto scale = [&](Tensor& x, double size) {
              x.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
                if (mixed && i % 2 == 0) return;
                x.Set(b, i, h, e, static_cast<float>(x.At(b, i, h, e) * size));
              });
            };
            scale(p.q, q);
            scale(p.k, k);
            scale(p.v, v);
            SCOPED_TRACE(::testing::Message() << "q " << q << ", k " << k << ", v " << v
                                              << (mixed ? ", every other row" : ""));
            p.CheckForward();
          }
        }
      }
    }
  }
}

TEST(LinearTest, GradientsOfValuesOf1e15And1eMinus15) {
  for (const double size : {1e-15, 1e15}) {
    for (const int which : {0, 1, 2}) {
      Case c = SelfAttention(70, 20, which != 1);
      c.kernel.epsilon = 1e-30f;
      Problem<Linear> p(c);
      Tensor& x = *std::vector<Tensor*>{&p.q, &p.k, &p.v}[which];
      x.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
        x.Set(b, i, h, e, static_cast<float>(x.At(b, i, h, e) * size));
      });
      SCOPED_TRACE(::testing::Message() << "qkv"[which] << " of " << size);
      p.Check();
    }
  }
}

const std::vector<FeatureMap> kNonNegative{FeatureMap::kRelu, FeatureMap::kEluPlusOne,
                                           FeatureMap::kGiven};

TEST(LinearTest, WeightsSumToOne) {
  for (const FeatureMap map : kNonNegative) {
    for (const bool causal : {true, false}) {
      Case c = SelfAttention(500, 33, causal);
      c.kernel.feature_map = map;
      Problem<Linear> p(c);
      p.v.Fill([] { return 1.f; });
      p.Forward();
      // All terms are positive, so a magnitude is a value: 1 for the numerator, 1 for the divisor.
      p.o.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
        EXPECT_NEAR(p.o.At(b, i, h, e), 1, Tolerance(Linear::ForwardGrowth(c), 2, 1, c.outputs))
            << Name(map) << ", row " << i;
      });
    }
  }
}

TEST(LinearTest, WeightsAreNotNegative) {
  for (const FeatureMap map : kNonNegative) {
    for (const bool causal : {true, false}) {
      // One value dimension a key: the outputs are the weights. The horizon is as short as can be,
      // where the cosine gets closest to zero.
      Case c = SelfAttention(200, 8, causal);
      c.value_dim = c.keys;
      c.kernel.feature_map = map;
      Problem<Linear> p(c);
      p.v.Fill([] { return 0.f; });
      for (int64_t j = 0; j < c.keys; ++j) p.v.Set(0, j, 0, j, 1);
      p.CheckForward();
      p.o.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t j) {
        ASSERT_GE(p.o.At(b, i, h, j), 0) << Name(map) << ", query " << i << ", key " << j;
        if (causal && j > i) {
          ASSERT_EQ(p.o.At(b, i, h, j), 0);
        }
      });
    }
  }
}

TEST(LinearTest, TheNormaliserNeedNotBeAskedFor) {
  Problem<Linear> p(SelfAttention(40, 8));
  p.Forward();
  Problem<Linear> without(p.c);
  LinearAttentionForward(without.q.view(), without.k.view(), without.v.view(), without.o.view(), {},
                         Linear::OptionsOf(p.c));
  ExpectSameBits("o", p.o, without.o);
}

}  // namespace
}  // namespace cosformer::testing
