// Longformer (Beltagy et al., arXiv 2004.05150): a sliding window, and some global tokens that see
// all and are seen by all; O(N). As published, the queries of global tokens, and the keys and
// values that they see, have projections of their own. Causal use is that of its character models:
// the window alone, behind the query.
//
// Options: "window": keys at most that far from the query are seen, on each side (default
// max_length / 16, at most 256: the published window is 256 a side at length 4096), "globals": how
// many tokens at the beginning are global (default 1, the token that classifies; causal 0),
// "global_projections" (default true; rotary positions do not reach them, so that a global token
// sees the others by what they are, not by where).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cosformer/error.h"
#include "zoo/operators.h"
#include "zoo/patterns.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

using torch::Tensor;

struct LongformerConfig {
  int64_t window = 0;
  int64_t globals = 0;
  bool global_projections = false;
};

// The keys and values of the last window + 1 tokens, in a ring: the order of keys is nothing to
// softmax. [batch, kv_heads, slots, dim], as the kernel reads them.
class WindowStream final : public Stream {
 public:
  WindowStream(const Geometry& geometry, int64_t window, int64_t batch)
      : window_(window),
        keys_(torch::zeros({batch, geometry.kv_heads, window + 1, geometry.dim})),
        values_(torch::zeros({batch, geometry.kv_heads, window + 1, geometry.value_dim})) {}

  int64_t position() const override { return position_; }
  size_t bytes() const override {
    return static_cast<size_t>(keys_.numel() + values_.numel()) * sizeof(float);
  }

  Tensor Step(const Inputs& inputs) override {
    const int64_t n = inputs.q.size(1);
    if (n == 1) {
      Put(inputs.k, inputs.v);
      const int64_t held = std::min(position_, window_ + 1);
      SoftmaxOptions options;
      options.causal = false;
      return SoftmaxAttention(inputs.q, Slots(keys_).narrow(1, 0, held),
                              Slots(values_).narrow(1, 0, held), options);
    }
    const int64_t past = std::min(position_, window_);
    const Tensor k = torch::cat({Past(keys_, past), inputs.k}, 1);
    const Tensor v = torch::cat({Past(values_, past), inputs.v}, 1);
    // Patterns count distances in rows, so that queries stand beside their keys.
    const Tensor q = torch::constant_pad_nd(inputs.q, {0, 0, 0, 0, past, 0});
    const Tensor o = PatternAttention(
        q, k, v,
        {std::make_shared<AttentionPattern>(WindowPattern(past + n, window_, past, true))});
    const int64_t kept = std::min(n, window_ + 1);
    position_ += n - kept;
    Put(inputs.k.narrow(1, n - kept, kept), inputs.v.narrow(1, n - kept, kept));
    return o.narrow(1, past, n);
  }

 private:
  static Tensor Slots(const Tensor& ring) { return ring.transpose(1, 2); }

  // The last `count` tokens, in order.
  Tensor Past(const Tensor& ring, int64_t count) const {
    const Tensor slots = torch::arange(position_ - count, position_, torch::kInt64);
    return Slots(ring).index_select(1, slots.remainder(window_ + 1));
  }

  void Put(const Tensor& k, const Tensor& v) {
    const int64_t n = k.size(1);
    for (int64_t begin = 0; begin < n;) {
      const int64_t slot = position_ % (window_ + 1);
      const int64_t count = std::min(n - begin, window_ + 1 - slot);
      Slots(keys_).narrow(1, slot, count).copy_(k.narrow(1, begin, count));
      Slots(values_).narrow(1, slot, count).copy_(v.narrow(1, begin, count));
      begin += count;
      position_ += count;
    }
  }

  int64_t window_;
  int64_t position_ = 0;
  Tensor keys_, values_;
};

class Longformer final : public System {
 public:
  Longformer(const Geometry& geometry, const LongformerConfig& config)
      : geometry_(geometry), config_(config), patterns_([this](int64_t length) {
          return std::vector{LongformerPattern(length, config_.window, config_.globals,
                                               !config_.global_projections, geometry_.causal())};
        }) {
    if (!config.global_projections) return;
    // As the projections of the model around it.
    const double deviation = std::sqrt(2.0 / (5.0 * static_cast<double>(geometry.width)));
    const int64_t queries = geometry.heads * geometry.dim;
    const int64_t others = geometry.kv_heads * (geometry.dim + geometry.value_dim);
    query_weight_ = register_parameter("global_query_weight",
                                       torch::randn({queries, geometry.width}) * deviation);
    query_bias_ = register_parameter("global_query_bias", torch::zeros({queries}));
    key_value_weight_ = register_parameter("global_key_value_weight",
                                           torch::randn({others, geometry.width}) * deviation);
    key_value_bias_ = register_parameter("global_key_value_bias", torch::zeros({others}));
  }

  Tensor Forward(const Inputs& inputs) override {
    const int64_t n = inputs.q.size(1);
    const auto lengths = QueryLengths(inputs.layout, inputs.q.size(0), n);
    const Tensor o = PatternAttention(inputs.q, inputs.k, inputs.v, patterns_.For(lengths));
    const int64_t globals = std::min(config_.globals, n);
    if (!config_.global_projections || globals == 0) return o;
    return torch::cat({FromGlobals(inputs, lengths, globals), o.narrow(1, globals, n - globals)},
                      1);
  }

  std::unique_ptr<Stream> NewStream(int64_t batch) override {
    return std::make_unique<WindowStream>(geometry_, config_.window, batch);
  }

 private:
  // The rows of the global tokens: [batch, globals, heads, value_dim].
  Tensor FromGlobals(const Inputs& inputs, std::vector<int64_t> lengths, int64_t globals) const {
    const int64_t batch = inputs.x.size(0);
    const int64_t n = inputs.x.size(1);
    const int64_t key_rows = geometry_.kv_heads * geometry_.dim;
    const int64_t value_rows = geometry_.kv_heads * geometry_.value_dim;
    const Tensor q = torch::linear(inputs.x.narrow(1, 0, globals), query_weight_, query_bias_);
    const auto keys_values = torch::linear(inputs.x, key_value_weight_, key_value_bias_)
                                 .split_with_sizes({key_rows, value_rows}, -1);
    std::vector<int64_t> query_lengths = lengths;
    for (int64_t& length : query_lengths) length = std::min(length, globals);
    SoftmaxOptions options;
    options.causal = false;
    options.sequences.query_lengths = query_lengths;
    options.sequences.key_lengths = lengths;
    return SoftmaxAttention(
        q.view({batch, globals, geometry_.heads, geometry_.dim}),
        keys_values[0].view({batch, n, geometry_.kv_heads, geometry_.dim}),
        keys_values[1].view({batch, n, geometry_.kv_heads, geometry_.value_dim}), options);
  }

  Geometry geometry_;
  LongformerConfig config_;
  PatternCache patterns_;
  Tensor query_weight_, query_bias_;          // [heads * dim, width]
  Tensor key_value_weight_, key_value_bias_;  // [kv_heads * (dim + value_dim), width]
};

}  // namespace

void AddLongformer(std::vector<Entry>& entries) {
  Entry entry;
  entry.name = "longformer";
  entry.summary = "softmax over a sliding window and global tokens, O(N)";
  entry.abilities = {.causal = true, .bidirectional = true, .streaming = true, .padding = true};
  entry.rotary = RotaryUse::kBefore;
  entry.make = [](const Geometry& geometry, OptionReader& options) {
    LongformerConfig config;
    config.window = options.Integer("window", std::clamp<int64_t>(geometry.max_length / 16, 1, 256),
                                    1, geometry.max_length);
    config.globals = options.Integer("globals", geometry.causal() ? 0 : 1, 0, geometry.max_length);
    if (geometry.causal() && config.globals > 0) {
      throw Error(
          fmt::format("{}: globals is {}, but a global token sees what comes after it; in "
                      "causal attention it must be 0",
                      options.where(), config.globals));
    }
    config.global_projections = options.Flag("global_projections", true) && config.globals > 0;
    return std::make_shared<Longformer>(geometry, config);
  };
  entries.push_back(std::move(entry));
}

}  // namespace cosformer::zoo
