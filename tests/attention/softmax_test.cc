// Softmax attention in one call, forward and backward, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "problem.h"

namespace cosformer::testing {
namespace {

TEST(SoftmaxTest, RandomCasesAgreeWithTheReference) {
  CheckRandomCases<Softmax>(1, kSanitized ? 150 : 1500);
}

TEST(SoftmaxTest, EveryLengthAroundTheBlocks) {
  std::vector<int64_t> lengths;
  for (int64_t length = 0; length <= 70; ++length) lengths.push_back(length);
  for (int64_t block = 96; block <= 288; block += 32) {
    lengths.insert(lengths.end(), {block - 1, block, block + 1});
  }
  lengths.insert(lengths.end(), {511, 512, 513});
  for (const int64_t length : lengths) {
    for (const bool causal : {true, false}) {
      Case c = SelfAttention(length, 12, causal);
      c.seed = length;
      c.threads = 1 + static_cast<int>(length % 3);
      Problem<Softmax>(c).Check();
    }
  }
}

TEST(SoftmaxTest, EveryNumberOfQueriesAgainstAPrefix) {
  const int64_t keys = 135;
  for (int64_t queries = 0; queries <= keys; queries += 1 + queries / 8) {
    Case c = SelfAttention(keys, 5);
    c.seed = queries;
    c.queries = queries;
    Problem<Softmax>(c).Check();
  }
}

TEST(SoftmaxTest, EveryPairOfLengthsInCrossAttention) {
  const std::vector<int64_t> lengths{0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129};
  for (const int64_t queries : lengths) {
    for (const int64_t keys : lengths) {
      Case c = SelfAttention(std::max(queries, keys), 7, false);
      c.queries = queries;
      c.keys = keys;
      Problem<Softmax>(c).Check();
    }
  }
}

TEST(SoftmaxTest, EveryDim) {
  std::vector<int64_t> dims;
  for (int64_t dim = 1; dim <= 34; ++dim) dims.push_back(dim);
  dims.insert(dims.end(), {47, 48, 49, 63, 64, 65, 96, 127, 128, 129, 200, 256});
  for (const int64_t dim : dims) {
    for (const int64_t value_dim : {int64_t{1}, dim, 257 - dim}) {
      Case c = SelfAttention(35, dim, (dim + value_dim) % 2 == 0);
      c.value_dim = value_dim;
      c.heads = 2;
      c.seed = dim;
      Problem<Softmax>(c).Check();
    }
  }
}

TEST(SoftmaxTest, ALongTextAgreesInSampledRows) {
  for (const bool causal : {true, false}) {
    Case c = SelfAttention(4096, 64, causal);
    c.threads = 2;
    Problem<Softmax> p(c);
    p.Forward();
    for (const int64_t row : {0, 1, 63, 64, 1000, 4095}) ExpectRow(p, row);
  }
}

TEST(SoftmaxTest, FewQueriesOverManyKeys) {
  // As in decoding. The lengths lie around the powers of two at which the keys may be shared out.
  for (const int64_t keys : {100, 1023, 1025, 2047, 2048, 2049, 4097, 5000}) {
    for (const int64_t queries : {1, 2, 3, 4, 5}) {
      for (const bool causal : {true, false}) {
        Case c = SelfAttention(keys, 9, causal);
        c.queries = queries;
        c.heads = 2;
        c.threads = 1 + static_cast<int>(queries % 3);
        c.inputs = keys % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
        c.seed = keys;
        Problem<Softmax>(c).Check();
      }
    }
  }
}

TEST(SoftmaxTest, WeightsSumToOneAndAreNotNegative) {
  for (const bool causal : {true, false}) {
    Case c = SelfAttention(200, 8, causal);
    c.value_dim = c.keys + 1;
    Problem<Softmax> p(c);
    p.v.Fill([] { return 0.f; });
    for (int64_t j = 0; j < c.keys; ++j) {
      p.v.Set(0, j, 0, j, 1);
      p.v.Set(0, j, 0, c.keys, 1);
    }
    p.CheckForward();
    p.o.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t j) {
      ASSERT_GE(p.o.At(b, i, h, j), 0) << "query " << i << ", key " << j;
      if (causal && j > i && j < c.keys) {
        ASSERT_EQ(p.o.At(b, i, h, j), 0);
      }
    });
  }
}

TEST(SoftmaxTest, ScoresOf10000DoNotOverflow) {
  // Scores are q * k / sqrt(16) * 16: +-1e4 and less, of both signs.
  for (const float size : {1e4f, -1e4f}) {
    for (const bool causal : {true, false}) {
      Case c = SelfAttention(150, 16, causal);
      Problem<Softmax> p(c);
      p.q.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
        p.q.Set(b, i, h, e, 1);
        p.k.Set(b, i, h, e, size / 4 * (1 - static_cast<float>(i * 7 % 150) / 1e5f));
      });
      p.Check();
    }
  }
}

TEST(SoftmaxTest, ScoresThatRiseBlockByBlockKeepTheirSum) {
  // The running maximum changes at every key; then it falls, and never does.
  for (const float slope : {1.f, -1.f, 30.f, -30.f}) {
    for (const bool causal : {true, false}) {
      Case c = SelfAttention(200, 1, causal);
      c.value_dim = 20;
      Problem<Softmax> p(c);
      for (int64_t i = 0; i < c.keys; ++i) {
        p.q.Set(0, i, 0, 0, 1);
        p.k.Set(0, i, 0, 0, slope * static_cast<float>(i));
      }
      p.Check();
    }
  }
}

TEST(SoftmaxTest, EqualScoresAverageTheValues) {
  Case c = SelfAttention(100, 4, false);
  Problem<Softmax> p(c);
  p.k.Fill([] { return 0.f; });
  p.Check();
}

TEST(SoftmaxTest, ValuesOf1e15And1eMinus15) {
  for (const float size : {1e15f, 1e-15f}) {
    for (const bool mixed : {false, true}) {
      Case c = SelfAttention(70, 20);
      Problem<Softmax> p(c);
      p.v.ForEach([&](int64_t b, int64_t i, int64_t h, int64_t e) {
        if (!mixed || i % 2 == 0) p.v.Set(b, i, h, e, p.v.At(b, i, h, e) * size);
      });
      p.Check();
    }
  }
}

TEST(SoftmaxTest, QueriesWithoutKeysYieldZeros) {
  Case c = SelfAttention(40, 8, false);
  c.batch = 3;
  c.query_lengths = {40, 20, 0};
  c.key_lengths = {0, 30, 40};
  Problem<Softmax> p(c);
  p.Check();
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(p.o.At(0, i, 0, 0), 0);
    EXPECT_EQ(p.normaliser.At(0, i, 0, 0), -std::numeric_limits<float>::infinity());
    EXPECT_EQ(p.o.At(2, i, 0, 0), 0);
    EXPECT_EQ(p.normaliser.At(2, i, 0, 0), 0) << "padding";
  }
}

}  // namespace
}  // namespace cosformer::testing
