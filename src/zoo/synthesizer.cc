// Synthesizer (Tay et al., arXiv 2005.00743): the scores are made without comparing tokens, from
// each query's input alone or from nothing; softmax of them weighs the values. O(N^2) by
// publication. Where the scores are an inner product of something with a row for each key, the
// softmax kernel takes that for queries and keys, and nothing of the size N x N is held.
//
// Options: "kind", of a head's scores s(i, j):
//   "dense"              w_j . relu(W x_i + b) + c_j: a hidden layer of dim units
//   "random"             r_ij, learned
//   "factorized-dense"   a(x_i)_(j mod A) * b(x_i)_(j div A), both from one hidden layer, where
//                        A = sqrt(max_length)
//   "factorized-random"  r_i . t_j, learned, of "rank" elements (default 8, as published)
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "zoo/operators.h"
#include "zoo/patterns.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

using torch::Tensor;
using torch::indexing::Slice;

// Rows of scores that are worked on together where they are materialised: 256 of 4096 keys and 8
// heads are 32 MiB.
constexpr int64_t kSlice = 256;

class Synthesizer : public System {
 public:
  explicit Synthesizer(const Geometry& geometry) : geometry_(geometry) {}

  Projections projections() const override { return Projections::kValue; }

  Tensor Forward(const Inputs& inputs) final {
    CheckLength("synthesizer", inputs.v.size(1), geometry_.max_length);
    return Attend(inputs);
  }

 protected:
  virtual Tensor Attend(const Inputs& inputs) = 0;

  // The hidden layer: relu(W x + b), [batch, n, heads, dim].
  void RegisterHidden() {
    const double deviation = 1 / std::sqrt(static_cast<double>(geometry_.width));
    const int64_t units = geometry_.heads * geometry_.dim;
    hidden_weight_ =
        register_parameter("hidden_weight", torch::randn({units, geometry_.width}) * deviation);
    hidden_bias_ = register_parameter("hidden_bias", torch::zeros({units}));
  }
  Tensor Hidden(const Tensor& x) const {
    return torch::linear(x, hidden_weight_, hidden_bias_)
        .relu()
        .view({x.size(0), x.size(1), geometry_.heads, geometry_.dim});
  }
  // Of what stands on the hidden layer: unit variance of the scores is sqrt(dim / 2) of this.
  Tensor OnHidden(const std::vector<int64_t>& shape) const {
    return torch::randn(shape) / std::sqrt(static_cast<double>(geometry_.dim));
  }

  // softmax_j(q_i . k_j) v_j with k [n, heads, dim], the same for the whole batch. Keys differ by
  // query head, so that values which heads share are repeated.
  Tensor AttendWith(const Tensor& q, const Tensor& k, const Inputs& inputs) const {
    SoftmaxOptions options;
    options.causal = geometry_.causal();
    options.scale = 1;
    options.sequences = inputs.layout.View();
    return SoftmaxAttention(q, k.unsqueeze(0).expand({inputs.v.size(0), -1, -1, -1}),
                            ForQueryHeads(inputs.v), options);
  }

  Tensor ForQueryHeads(const Tensor& v) const {
    return geometry_.heads == geometry_.kv_heads
               ? v
               : v.repeat_interleave(geometry_.heads / geometry_.kv_heads, 2);
  }

  // The weights of query rows begin, begin + 1, ... from their scores [..., rows, keys].
  Tensor Weights(Tensor scores, int64_t begin) const {
    if (geometry_.causal()) {
      const Tensor later =
          torch::ones({scores.size(-2), scores.size(-1)}, torch::kBool).triu(begin + 1);
      scores = scores.masked_fill(later, -std::numeric_limits<float>::infinity());
    }
    return scores.softmax(-1);
  }

  // Which batch entries have which length: all that share it are computed as one.
  static std::map<int64_t, std::vector<int64_t>> ByLength(const Inputs& inputs) {
    std::map<int64_t, std::vector<int64_t>> entries;
    const auto lengths = QueryLengths(inputs.layout, inputs.v.size(0), inputs.v.size(1));
    for (size_t b = 0; b < lengths.size(); ++b) {
      entries[lengths[b]].push_back(static_cast<int64_t>(b));
    }
    return entries;
  }

  // Runs body(x, v, length) for the batch entries of each length; body returns
  // [entries, length, heads, value_dim].
  template <class Body>
  Tensor ForLengths(const Inputs& inputs, const Body& body) const {
    const int64_t batch = inputs.v.size(0), n = inputs.v.size(1);
    const Tensor v = ForQueryHeads(inputs.v);
    const auto groups = ByLength(inputs);
    if (groups.size() == 1 && groups.begin()->first == n) return body(inputs.x, v, n);
    std::vector<Tensor> parts;
    std::vector<int64_t> order;  // batch entries as they stand in the parts
    for (const auto& [length, entries] : groups) {
      const Tensor index = torch::tensor(entries, torch::kInt64);
      const Tensor o = length == 0
                           ? torch::zeros({index.size(0), 0, v.size(2), v.size(3)}, v.options())
                           : body(inputs.x.index_select(0, index).narrow(1, 0, length),
                                  v.index_select(0, index).narrow(1, 0, length), length);
      parts.push_back(torch::constant_pad_nd(o, {0, 0, 0, 0, 0, n - length}));
      order.insert(order.end(), entries.begin(), entries.end());
    }
    std::vector<int64_t> places(static_cast<size_t>(batch));
    for (int64_t i = 0; i < batch; ++i) places[order[i]] = i;
    return torch::cat(parts, 0).index_select(0, torch::tensor(places, torch::kInt64));
  }

  Geometry geometry_;
  Tensor hidden_weight_, hidden_bias_;  // [heads * dim, width], where there is a hidden layer
};

class Dense final : public Synthesizer {
 public:
  explicit Dense(const Geometry& geometry) : Synthesizer(geometry) {
    RegisterHidden();
    weight_ =
        register_parameter("weight", OnHidden({geometry.max_length, geometry.heads, geometry.dim}));
    bias_ = register_parameter("bias", torch::zeros({geometry.max_length, geometry.heads, 1}));
  }

 private:
  Tensor Attend(const Inputs& inputs) override {
    const int64_t n = inputs.x.size(1);
    // The bias is a weight of an input that is 1.
    const Tensor q = torch::constant_pad_nd(Hidden(inputs.x), {0, 1}, 1);
    const Tensor k = torch::cat({weight_.narrow(0, 0, n), bias_.narrow(0, 0, n)}, -1);
    return AttendWith(q, k, inputs);
  }

  Tensor weight_, bias_;  // [max_length, heads, dim or 1]
};

class RandomFactors final : public Synthesizer {
 public:
  RandomFactors(const Geometry& geometry, int64_t rank) : Synthesizer(geometry) {
    // Scores of unit variance.
    const double deviation = std::pow(static_cast<double>(rank), -0.25);
    const std::vector<int64_t> shape = {geometry.max_length, geometry.heads, rank};
    queries_ = register_parameter("queries", torch::randn(shape) * deviation);
    keys_ = register_parameter("keys", torch::randn(shape) * deviation);
  }

 private:
  Tensor Attend(const Inputs& inputs) override {
    const int64_t n = inputs.v.size(1);
    const Tensor q = queries_.narrow(0, 0, n).unsqueeze(0).expand({inputs.v.size(0), -1, -1, -1});
    return AttendWith(q, keys_.narrow(0, 0, n), inputs);
  }

  Tensor queries_, keys_;  // [max_length, heads, rank]
};

class Random final : public Synthesizer {
 public:
  explicit Random(const Geometry& geometry) : Synthesizer(geometry) {
    scores_ = register_parameter(
        "scores", torch::randn({geometry.heads, geometry.max_length, geometry.max_length}));
  }

 private:
  Tensor Attend(const Inputs& inputs) override {
    return ForLengths(inputs, [&](const Tensor&, const Tensor& v, int64_t length) {
      const Slice rows(0, length);
      const Tensor weights = Weights(scores_.index({Slice(), rows, rows}), 0);
      return torch::matmul(weights, v.transpose(1, 2)).transpose(1, 2);
    });
  }

  Tensor scores_;  // [heads, max_length, max_length]
};

class DenseFactors final : public Synthesizer {
 public:
  explicit DenseFactors(const Geometry& geometry)
      : Synthesizer(geometry),
        inner_(std::llround(std::ceil(std::sqrt(static_cast<double>(geometry.max_length))))),
        outer_((geometry.max_length + inner_ - 1) / inner_) {
    RegisterHidden();
    weight_ =
        register_parameter("weight", OnHidden({geometry.heads, geometry.dim, inner_ + outer_}));
    // A product of two small numbers has next to no gradient: both begin around 1.
    bias_ = register_parameter("bias", torch::ones({geometry.heads, 1, inner_ + outer_}));
  }

 private:
  Tensor Attend(const Inputs& inputs) override {
    const Tensor factors = torch::matmul(Hidden(inputs.x).transpose(1, 2), weight_) + bias_;
    // Rows of the factors go with the rows of x: [batch, n, heads, inner + outer].
    Inputs with = inputs;
    with.x = factors.transpose(1, 2);
    return ForLengths(with, [&](const Tensor& f, const Tensor& v, int64_t length) {
      const Tensor rows = f.transpose(1, 2), values = v.transpose(1, 2);
      std::vector<Tensor> slices;
      for (int64_t begin = 0; begin < length; begin += kSlice) {
        const int64_t count = std::min(kSlice, length - begin);
        // Whatever comes later is not seen.
        const int64_t keys = geometry_.causal() ? begin + count : length;
        const Tensor of = rows.narrow(2, begin, count);
        const Tensor a = of.narrow(-1, 0, inner_).unsqueeze(-2);
        const Tensor b = of.narrow(-1, inner_, (keys + inner_ - 1) / inner_).unsqueeze(-1);
        const Tensor scores = (b * a).flatten(-2).narrow(-1, 0, keys);
        slices.push_back(torch::matmul(Weights(scores, begin), values.narrow(2, 0, keys)));
      }
      return torch::cat(slices, 2).transpose(1, 2);
    });
  }

  int64_t inner_, outer_;  // A, and how many times it fits
  Tensor weight_, bias_;   // [heads, dim or 1, inner + outer]
};

}  // namespace

void AddSynthesizer(std::vector<Entry>& entries) {
  Entry entry;
  entry.name = "synthesizer";
  entry.summary = "weights synthesised without comparing tokens, O(N^2) time";
  entry.abilities = {.causal = true, .bidirectional = true, .padding = true};
  entry.rotary = RotaryUse::kNone;
  entry.no_rotary_reason = "it has no queries and keys to turn";
  entry.make = [](const Geometry& geometry, OptionReader& options) -> std::shared_ptr<System> {
    const std::string kind = options.Choice(
        "kind", "dense", {"dense", "random", "factorized-dense", "factorized-random"});
    if (kind == "dense") return std::make_shared<Dense>(geometry);
    if (kind == "random") return std::make_shared<Random>(geometry);
    if (kind == "factorized-dense") return std::make_shared<DenseFactors>(geometry);
    const int64_t fallback = std::min<int64_t>(8, geometry.max_length);
    const int64_t rank = options.Integer("rank", fallback, 1, geometry.max_length);
    return std::make_shared<RandomFactors>(geometry, rank);
  };
  entries.push_back(std::move(entry));
}

}  // namespace cosformer::zoo
