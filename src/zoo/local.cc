// Local attention of the Long-Range Arena: softmax within blocks that do not overlap.
//
// Options: "block" in tokens (default 64), at most max_length.
#include <algorithm>

#include "zoo/operators.h"
#include "zoo/patterns.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

// A cache of the current block.
class LocalStream final : public Stream {
 public:
  LocalStream(const SoftmaxCacheConfig& config, int64_t block) : cache_(config), block_(block) {}

  int64_t position() const override { return position_; }
  size_t bytes() const override { return cache_.bytes(); }

  torch::Tensor Step(const Inputs& inputs) override {
    const int64_t n = inputs.q.size(1);
    torch::Tensor o =
        torch::empty({inputs.q.size(0), n, inputs.q.size(2), inputs.v.size(3)}, inputs.q.options());
    for (int64_t begin = 0; begin < n;) {
      if (cache_.position() == block_) cache_.Truncate(0);
      const int64_t count = std::min(n - begin, block_ - cache_.position());
      torch::Tensor rows = o.narrow(1, begin, count);
      cache_.Step(ViewOf(inputs.q.narrow(1, begin, count)),
                  ViewOf(inputs.k.narrow(1, begin, count)),
                  ViewOf(inputs.v.narrow(1, begin, count)), MutableViewOf(rows));
      begin += count;
      position_ += count;
    }
    return o;
  }

 private:
  SoftmaxCache cache_;
  int64_t block_;
  int64_t position_ = 0;
};

class Local final : public System {
 public:
  Local(const Geometry& geometry, int64_t block)
      : geometry_(geometry), block_(block), patterns_([this](int64_t length) {
          return std::vector{LocalPattern(length, block_, geometry_.causal())};
        }) {}

  torch::Tensor Forward(const Inputs& inputs) override {
    const auto lengths = QueryLengths(inputs.layout, inputs.q.size(0), inputs.q.size(1));
    return PatternAttention(inputs.q, inputs.k, inputs.v, patterns_.For(lengths));
  }

  std::unique_ptr<Stream> NewStream(int64_t batch) override {
    return std::make_unique<LocalStream>(
        SoftmaxCacheConfig{batch, geometry_.kv_heads, geometry_.dim, geometry_.value_dim,
                           DType::kFloat32},
        block_);
  }

 private:
  Geometry geometry_;
  int64_t block_;
  PatternCache patterns_;
};

}  // namespace

void AddLocal(std::vector<Entry>& entries) {
  Entry entry;
  entry.name = "local";
  entry.summary = "softmax within blocks, O(N)";
  entry.abilities = {.causal = true, .bidirectional = true, .streaming = true, .padding = true};
  entry.rotary = RotaryUse::kBefore;
  entry.make = [](const Geometry& geometry, OptionReader& options) {
    const int64_t fallback = std::min<int64_t>(64, geometry.max_length);
    const int64_t block = options.Integer("block", fallback, 1, geometry.max_length);
    return std::make_shared<Local>(geometry, block);
  };
  entries.push_back(std::move(entry));
}

}  // namespace cosformer::zoo
