// Reformer (Kitaev et al., arXiv 2001.04451): queries and keys are one projection, keys its rows at
// unit length; a token sees those that random rotations hash into its bucket, over several rounds.
// O(N log N) in the paper for its sort; here the sort counts, O(N).
//
// The published code sorts by bucket and cuts the sorted sequence into chunks, so that one later
// token can move the cuts before it, and with them what earlier tokens see. Here the tokens of each
// bucket are cut, counting from the bucket's first: chunk c sees chunks c and c - 1 of its bucket,
// at most 2 * chunk keys a query and round, as published, and nothing depends on later tokens. For
// the same reason the number of buckets comes from max_length, not from the sequence.
//
// All rounds are one softmax, which is what the published merging by log-sum-exp computes: a pair
// that meets in two rounds counts twice. A token sees itself only where it sees nothing else.
//
// Options: "rounds" (default 4: what one round hashes apart another brings together; 2 cost half),
// "chunk" in tokens (64), "buckets" (default: max_length / chunk,
// even; 1 is no hashing at all). The rotations are drawn anew at each training step, are saved with
// the weights, and stay as they are in evaluation.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "cosformer/error.h"
#include "zoo/operators.h"
#include "zoo/patterns.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

using torch::Tensor;

// exp(-100) is below the smallest float32: a token weighs nothing beside any other that it sees,
// and everything alone.
constexpr float kSelfPenalty = -100;

struct ReformerConfig {
  int64_t rounds = 4;
  int64_t chunk = 64;
  int64_t buckets = 0;  // 1 or even
};

class Reformer final : public System {
 public:
  Reformer(const Geometry& geometry, const ReformerConfig& config)
      : geometry_(geometry), config_(config) {
    rotations_ = register_buffer("rotations", torch::randn({geometry.heads, geometry.dim,
                                                            config.rounds * (config.buckets / 2)}));
  }

  Projections projections() const override { return Projections::kSharedQueryKey; }

  Tensor Forward(const Inputs& inputs) override {
    const Tensor& q = inputs.q;
    Tensor buckets;
    {
      torch::NoGradGuard no_grad;
      if (is_training()) rotations_.normal_();
      buckets = Buckets(q);
    }
    const Tensor k = torch::nn::functional::normalize(
        q, torch::nn::functional::NormalizeFuncOptions().p(2).dim(-1));
    Tensor v = inputs.v;
    if (v.size(2) != q.size(2)) v = v.repeat_interleave(q.size(2) / v.size(2), 2);
    return PatternAttention(q, k, v, Patterns(buckets, inputs.layout));
  }

 private:
  // [batch, heads, rounds, n], int32.
  Tensor Buckets(const Tensor& q) const {
    const int64_t batch = q.size(0), n = q.size(1), heads = q.size(2);
    if (config_.buckets == 1) {
      return torch::zeros({batch, heads, config_.rounds, n}, torch::kInt32);
    }
    const Tensor turned = torch::matmul(q.transpose(1, 2), rotations_)
                              .view({batch, heads, n, config_.rounds, config_.buckets / 2});
    return torch::cat({turned, -turned}, -1)
        .argmax(-1)
        .transpose(2, 3)
        .to(torch::kInt32, /*non_blocking=*/false, /*copy=*/false, torch::MemoryFormat::Contiguous);
  }

  std::vector<SharedPattern> Patterns(const Tensor& buckets, const Layout& layout) const {
    const int64_t heads = buckets.size(1), n = buckets.size(3);
    const auto lengths = QueryLengths(layout, buckets.size(0), n);
    std::vector<SharedPattern> patterns(static_cast<size_t>(buckets.size(0) * heads));
    at::parallel_for(0, static_cast<int64_t>(patterns.size()), 1, [&](int64_t begin, int64_t end) {
      std::vector<int32_t> of;  // [rounds, length]
      for (int64_t i = begin; i < end; ++i) {
        const int64_t length = lengths[i / heads];
        const int32_t* from = buckets.data_ptr<int32_t>() + i * config_.rounds * n;
        of.clear();
        for (int64_t round = 0; round < config_.rounds; ++round, from += n) {
          of.insert(of.end(), from, from + length);
        }
        auto pattern = std::make_shared<AttentionPattern>(BucketPattern(
            of, config_.rounds, length, config_.buckets, config_.chunk, geometry_.causal()));
        pattern->self_penalty = kSelfPenalty;
        patterns[i] = std::move(pattern);
      }
    });
    return patterns;
  }

  Geometry geometry_;
  ReformerConfig config_;
  Tensor rotations_;  // [heads, dim, rounds * buckets / 2]
};

}  // namespace

void AddReformer(std::vector<Entry>& entries) {
  Entry entry;
  entry.name = "reformer";
  entry.summary = "softmax within hashed buckets, shared queries and keys, O(N)";
  entry.abilities = {.causal = true, .bidirectional = true, .padding = true};
  entry.rotary = RotaryUse::kBefore;
  entry.make = [](const Geometry& geometry, OptionReader& options) {
    constexpr int64_t kMaxRounds = 64;
    ReformerConfig config;
    config.rounds = options.Integer("rounds", 4, 1, kMaxRounds);
    config.chunk = options.Integer("chunk", std::min<int64_t>(64, geometry.max_length), 1,
                                   geometry.max_length);
    const int64_t even = (geometry.max_length / config.chunk + 1) / 2 * 2;
    const int64_t most = std::max<int64_t>(2, geometry.max_length);
    config.buckets = options.Integer("buckets", std::max<int64_t>(2, even), 1, most);
    if (config.buckets != 1 && config.buckets % 2 != 0) {
      throw Error(
          fmt::format("{}: buckets is {}; it must be even, for a bucket is a direction or "
                      "its opposite, or 1",
                      options.where(), config.buckets));
    }
    return std::make_shared<Reformer>(geometry, config);
  };
  entries.push_back(std::move(entry));
}

}  // namespace cosformer::zoo
