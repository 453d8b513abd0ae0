// Reformer against its definition: which tokens share a bucket and a pair of chunks, written anew
// here from the rotations that the system holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/zoo/naive.h"
#include "zoo/operators.h"
#include "zoo/patterns.h"

namespace cosformer::testing {
namespace {

const std::vector<Direction> kDirections = {Direction::kCausal, Direction::kBidirectional};

struct Hashing {
  int64_t rounds, chunk, buckets;
};

// The bucket of every token, [rounds][n], of one head of one sequence.
std::vector<std::vector<int64_t>> BucketsOf(const Tensor& q, const Tensor& rotations,
                                            const Hashing& hashing) {
  std::vector<std::vector<int64_t>> buckets;
  const int64_t half = hashing.buckets / 2;
  for (int64_t round = 0; round < hashing.rounds; ++round) {
    std::vector<int64_t> of;
    for (int64_t i = 0; i < q.size(0); ++i) {
      double best = -INFINITY;
      int64_t bucket = 0;
      for (int64_t c = 0; c < hashing.buckets && hashing.buckets > 1; ++c) {
        const Tensor direction = rotations.select(1, round * half + c % half);
        const double along = (q[i] * direction).sum().item<double>() * (c < half ? 1 : -1);
        if (along > best) {
          best = along;
          bucket = c;
        }
      }
      of.push_back(bucket);
    }
    buckets.push_back(of);
  }
  return buckets;
}

// In how many rounds query i sees key j.
double Meetings(const std::vector<std::vector<int64_t>>& buckets, int64_t chunk, bool causal,
                int64_t i, int64_t j) {
  if (causal && j > i) return 0;
  double meetings = 0;
  for (const auto& of : buckets) {
    if (of[i] != of[j]) continue;
    const auto chunk_of = [&](int64_t token) {
      return std::count(of.begin(), of.begin() + token, of[token]) / chunk;
    };
    const int64_t behind = chunk_of(i) - chunk_of(j);
    meetings += behind == 0 || behind == 1;
  }
  return meetings;
}

Definition ReformerOf(const Problem& p, const Tensor& rotations, const Hashing& hashing) {
  return [p, rotations, hashing](const Exact& e) {
    torch::Tensor counts = torch::zeros({p.batch, p.geometry.heads, p.n, p.n}, torch::kFloat64);
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < p.geometry.heads; ++h) {
        const int64_t length = e.query_lengths[b];
        const auto buckets = BucketsOf(e.q[b].narrow(0, 0, length).select(1, h).detach(),
                                       rotations[h].to(torch::kFloat64), hashing);
        for (int64_t i = 0; i < length; ++i) {
          for (int64_t j = 0; j < length; ++j) {
            counts[b][h][i][j] = Meetings(buckets, hashing.chunk, p.geometry.causal(), i, j);
          }
        }
      }
    }
    // Itself only where there is nothing else.
    const Tensor eye = torch::eye(p.n, torch::kFloat64);
    const Tensor others = counts * (1 - eye);
    counts = torch::where(others.sum(-1, true) > 0, others, counts);
    const Tensor k = e.q / e.q.norm(2, -1, true);
    return NaiveSoftmax(e.q, k, e.v, counts);
  };
}

void ExpectReformer(const Problem& p, const Hashing& hashing) {
  const auto system = MakeSystem(p);
  const Tensor rotations = system->named_buffers()["rotations"];
  ASSERT_EQ(rotations.sizes(), (std::vector<int64_t>{p.geometry.heads, p.geometry.dim,
                                                     hashing.rounds * (hashing.buckets / 2)}));
  ExpectAgrees(p, *system, ReformerOf(p, rotations, hashing));
  if (p.geometry.causal()) ExpectCausal(p, *system);
}

TEST(ReformerTest, SeesItsBucketsChunks) {
  for (const Problem& p :
       Shapes("reformer", R"({"rounds": 3, "chunk": 4, "buckets": 6})", kDirections, 47)) {
    ExpectReformer(p, {3, 4, 6});
  }
  for (const Problem& p :
       Shapes("reformer", R"({"rounds": 1, "chunk": 1, "buckets": 2})", kDirections, 20)) {
    ExpectReformer(p, {1, 1, 2});
  }
}

TEST(ReformerTest, ItsBucketsComeFromTheLongestSequence) {
  Problem p{.system = "reformer", .options = "{}"};
  for (const auto& [max_length, buckets] :
       std::vector<std::pair<int64_t, int64_t>>{{30, 2}, {64, 2}, {200, 4}, {512, 8}}) {
    p.geometry = {Direction::kCausal, 12, 2, 2, 8, 8, max_length};
    p.n = 25;
    ExpectReformer(p, {4, std::min<int64_t>(64, max_length), buckets});
  }
}

TEST(ReformerTest, OneBucketAndOneChunkIsSoftmaxOverTheOthers) {
  for (const Problem& p :
       Shapes("reformer", R"({"rounds": 2, "chunk": 40, "buckets": 1})", kDirections, 40)) {
    const auto system = MakeSystem(p);
    ExpectAgrees(p, *system, [&](const Exact& e) {
      const bool causal = p.geometry.causal();
      const Tensor counts = Counts(e.query_lengths, e.key_lengths, p.geometry.heads, p.n, p.n,
                                   [&](int64_t length, int64_t, int64_t i, int64_t j) {
                                     const bool alone = causal ? i == 0 : length == 1;
                                     return i == j ? alone : !causal || j < i;
                                   });
      return NaiveSoftmax(e.q, e.q / e.q.norm(2, -1, true), e.v, counts);
    });
  }
}

TEST(ReformerTest, BucketPatternIsCausalWhateverComesLater) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 30; ++trial) {
    const int64_t n = 60, buckets = 4, chunk = 5, rounds = 2;
    std::vector<std::vector<int32_t>> of(rounds);
    for (auto& round : of) {
      for (int64_t i = 0; i < n; ++i) round.push_back(static_cast<int32_t>(random() % buckets));
    }
    const int64_t kept = 1 + static_cast<int64_t>(random() % n);
    // The keys of each query, in the order in which the kernel meets them.
    const auto keys = [&](int64_t length) {
      std::vector<int32_t> flat;
      for (const auto& round : of) flat.insert(flat.end(), round.begin(), round.begin() + length);
      const auto pattern = zoo::BucketPattern(flat, rounds, length, buckets, chunk, true);
      std::vector<std::vector<int32_t>> seen(static_cast<size_t>(length));
      for (const auto& tile : pattern.tiles) {
        for (int64_t a = 0; a < tile.query_count; ++a) {
          const int32_t i = pattern.query_rows[tile.query_begin + a];
          for (int64_t b = 0; b < tile.key_count; ++b) {
            const int32_t j = pattern.key_rows[tile.key_begin + b];
            if (j <= i) seen[i].push_back(j);
          }
        }
      }
      seen.resize(static_cast<size_t>(kept));
      return seen;
    };
    EXPECT_EQ(keys(n), keys(kept)) << "a prefix of " << kept;
  }
}

TEST(ReformerTest, RotationsAreRedrawnInTrainingOnly) {
  Problem p{.system = "reformer", .options = R"({"chunk": 4})"};
  p.geometry = {Direction::kBidirectional, 12, 2, 2, 8, 8, 40};
  p.n = 40;
  const auto system = MakeSystem(p);
  const zoo::Inputs inputs = RandomInputs(p, *system);
  const auto run = [&] { return system->Forward(inputs).detach(); };
  const Tensor before = run();
  EXPECT_TRUE(torch::equal(before, run()));
  system->train();
  const Tensor first = run();
  EXPECT_FALSE(torch::equal(before, first));
  const Tensor second = run();
  EXPECT_FALSE(torch::equal(first, second));
  system->eval();
  EXPECT_TRUE(torch::equal(second, run())) << "evaluation uses the rotations of the last step";
}

}  // namespace
}  // namespace cosformer::testing
