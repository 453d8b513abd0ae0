// Sparse Sinkhorn Attention (Tay et al., arXiv 2002.11296): a small network looks at the sum of
// each block of inputs and sorts the blocks of keys and values, softly; a block of queries sees its
// own block and the one sorted to its place. O(N block + (N / block)^2).
//
// The sorting matrix is made doubly stochastic by normalising rows and columns in turn, in log
// space. Causal use is the paper's masked balancing: block i is described by the inputs up to its
// first, may only get blocks before it, and a column's sum at row i runs over the rows up to i, so
// that nothing reaches back. Block 0 sees itself alone. A last block that is not full counts as
// zeros where it ends when others are mixed with it.
//
// Options: "block" in tokens (64), "iterations" of the balancing (8), "temperature" of the scores
// (0.75, as published); in training they carry Gumbel noise. Each key/value head sorts for itself.
#include <algorithm>
#include <cmath>
#include <limits>

#include "zoo/operators.h"
#include "zoo/patterns.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

using torch::Tensor;

// The log of nothing. Finite, so that a row of nothing normalises to numbers, which are masked
// again, and not to NaN.
constexpr double kNothing = -1e9;

struct SinkhornConfig {
  int64_t block = 64;
  int64_t iterations = 8;
  double temperature = 0.75;
};

class Sinkhorn final : public System {
 public:
  Sinkhorn(const Geometry& geometry, const SinkhornConfig& config)
      : geometry_(geometry),
        config_(config),
        max_blocks_((geometry.max_length + config.block - 1) / config.block) {
    // Sums of a block of inputs of unit variance then score with unit variance.
    const double deviation =
        1 / std::sqrt(static_cast<double>(geometry.width) * static_cast<double>(config.block));
    const int64_t scores = geometry.kv_heads * max_blocks_;
    weight_ = register_parameter("sort_weight", torch::randn({scores, geometry.width}) * deviation);
    bias_ = register_parameter("sort_bias", torch::zeros({scores}));
  }

  Tensor Forward(const Inputs& inputs) override {
    const int64_t batch = inputs.q.size(0), n = inputs.q.size(1), block = config_.block;
    CheckLength("sinkhorn", n, geometry_.max_length);
    const int64_t blocks = (n + block - 1) / block;
    const auto lengths = QueryLengths(inputs.layout, batch, n);
    Tensor padding;  // [batch, n]: true where it is
    if (inputs.layout.padded()) {
      padding =
          torch::arange(n, torch::kInt64) >= torch::tensor(lengths, torch::kInt64).view({-1, 1});
    }
    const Tensor order = Order(Blocks(inputs.x, padding), lengths);
    const Tensor k = Blocks(inputs.k, padding);
    const Tensor v = Blocks(inputs.v, padding);
    // Own keys come last, so that causal attention counts from their end.
    const Tensor keys = torch::cat({Sorted(order, k), k}, 2).flatten(0, 1);
    const Tensor values = torch::cat({Sorted(order, v), v}, 2).flatten(0, 1);
    std::vector<int64_t> query_lengths, key_lengths;  // [batch * blocks]
    for (const int64_t length : lengths) {
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t own = std::clamp<int64_t>(length - i * block, 0, block);
        // What is sorted to a block that has only itself is itself: one of the two is enough.
        const bool alone = length <= block || (geometry_.causal() && i == 0);
        query_lengths.push_back(own);
        key_lengths.push_back(alone || own == 0 ? own : block + own);
      }
    }
    SoftmaxOptions options;
    options.causal = geometry_.causal();
    options.sequences.query_lengths = query_lengths;
    options.sequences.key_lengths = key_lengths;
    return SoftmaxAttention(Blocks(inputs.q, {}).flatten(0, 1), keys, values, options)
        .view({batch, blocks * block, geometry_.heads, geometry_.value_dim})
        .narrow(1, 0, n);
  }

 private:
  // [batch, n, ...] -> [batch, blocks, block, ...], with zeros for padding.
  Tensor Blocks(Tensor rows, const Tensor& padding) const {
    if (padding.defined()) {
      std::vector<int64_t> shape(static_cast<size_t>(rows.dim()), 1);
      shape[0] = rows.size(0);
      shape[1] = rows.size(1);
      rows = rows.masked_fill(padding.view(shape), 0);
    }
    const int64_t missing = (config_.block - rows.size(1) % config_.block) % config_.block;
    if (missing > 0) {
      std::vector<int64_t> pad(static_cast<size_t>(2 * (rows.dim() - 1)), 0);
      pad.back() = missing;
      rows = torch::constant_pad_nd(rows, pad);
    }
    std::vector<int64_t> shape = rows.sizes().vec();
    shape[1] = config_.block;
    shape.insert(shape.begin() + 1, rows.size(1) / config_.block);
    return rows.reshape(shape);
  }

  // What each block is sorted by: [batch, blocks, width].
  Tensor Descriptions(const Tensor& x) const {
    const Tensor sums = x.sum(2);
    if (!geometry_.causal()) return sums;
    const Tensor before = torch::constant_pad_nd(sums.cumsum(1), {0, 0, 1, -1});
    return before + x.select(2, 0);
  }

  // Which pairs of blocks may be matched: [batch, 1, blocks, blocks].
  Tensor Matchable(const std::vector<int64_t>& lengths, int64_t blocks) const {
    const Tensor ends = torch::tensor(lengths, torch::kInt64).add(config_.block - 1);
    const Tensor counts = ends.div(config_.block, "floor").view({-1, 1});
    const Tensor real = torch::arange(blocks, torch::kInt64) < counts;  // [batch, blocks]
    const Tensor both = real.view({-1, 1, blocks, 1}).logical_and(real.view({-1, 1, 1, blocks}));
    if (!geometry_.causal()) return both;
    return both.logical_and(torch::ones({blocks, blocks}, torch::kBool).tril(-1));
  }

  // The sorting matrix [batch, kv_heads, blocks, blocks]: row i says what comes to the place of i.
  Tensor Order(const Tensor& x, const std::vector<int64_t>& lengths) {
    const int64_t batch = x.size(0), blocks = x.size(1);
    Tensor scores = torch::linear(Descriptions(x), weight_, bias_)
                        .view({batch, blocks, geometry_.kv_heads, max_blocks_})
                        .narrow(-1, 0, blocks)
                        .transpose(1, 2);
    if (is_training()) scores = scores + GumbelNoise(scores);
    const Tensor apart = Matchable(lengths, blocks).logical_not();
    scores = (scores / config_.temperature).masked_fill(apart, kNothing);
    for (int64_t iteration = 0; iteration < config_.iterations; ++iteration) {
      scores = (scores - scores.logsumexp(-1, /*keepdim=*/true)).masked_fill(apart, kNothing);
      const Tensor columns =
          geometry_.causal() ? scores.logcumsumexp(-2) : scores.logsumexp(-2, /*keepdim=*/true);
      scores = (scores - columns).masked_fill(apart, kNothing);
    }
    const Tensor order = scores.exp();
    if (!geometry_.causal()) return order;
    // Nothing comes before block 0.
    const Tensor first = torch::zeros({blocks, blocks});
    if (blocks > 0) first[0][0] = 1;
    return order + first;
  }

  static Tensor GumbelNoise(const Tensor& like) {
    torch::NoGradGuard no_grad;
    return torch::empty(like.sizes(), like.options())
        .exponential_()
        .clamp_min_(std::numeric_limits<float>::min())
        .log_()
        .neg_();
  }

  // Blocks [batch, blocks, block, kv_heads, dim] mixed by the rows of the sorting matrix.
  static Tensor Sorted(const Tensor& order, const Tensor& blocks) {
    const Tensor rows = blocks.permute({0, 3, 1, 2, 4});  // [batch, kv_heads, blocks, block, dim]
    return torch::matmul(order, rows.flatten(3)).view(rows.sizes()).permute({0, 2, 3, 1, 4});
  }

  Geometry geometry_;
  SinkhornConfig config_;
  int64_t max_blocks_;
  Tensor weight_, bias_;  // [kv_heads * max_blocks, width]
};

}  // namespace

void AddSinkhorn(std::vector<Entry>& entries) {
  Entry entry;
  entry.name = "sinkhorn";
  entry.summary = "softmax over the own block and one that is sorted to it, O(N)";
  entry.abilities = {.causal = true, .bidirectional = true, .padding = true};
  entry.rotary = RotaryUse::kNone;
  entry.no_rotary_reason =
      "its sorted keys are mixtures of blocks and have no positions of their own";
  entry.make = [](const Geometry& geometry, OptionReader& options) {
    SinkhornConfig config;
    config.block = options.Integer("block", std::min<int64_t>(64, geometry.max_length), 1,
                                   geometry.max_length);
    config.iterations = options.Integer("iterations", 8, 1, 1000);
    config.temperature = options.Number("temperature", 0.75, 1e-3, 1e3);
    return std::make_shared<Sinkhorn>(geometry, config);
  };
  entries.push_back(std::move(entry));
}

}  // namespace cosformer::zoo
