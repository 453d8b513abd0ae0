// The vanilla Transformer's attention: softmax(q k^T / sqrt(dim)) v, blockwise, so that its memory
// is linear although its time is not.
#include "zoo/operators.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

class SoftmaxStream final : public Stream {
 public:
  explicit SoftmaxStream(const SoftmaxCacheConfig& config) : cache_(config) {}

  int64_t position() const override { return cache_.position(); }
  size_t bytes() const override { return cache_.bytes(); }
  torch::Tensor Step(const Inputs& inputs) override {
    torch::Tensor o =
        torch::empty({inputs.q.size(0), inputs.q.size(1), inputs.q.size(2), inputs.v.size(3)},
                     inputs.q.options());
    cache_.Step(ViewOf(inputs.q), ViewOf(inputs.k), ViewOf(inputs.v), MutableViewOf(o));
    return o;
  }

 private:
  SoftmaxCache cache_;
};

class SoftmaxSystem final : public System {
 public:
  explicit SoftmaxSystem(const Geometry& geometry) : geometry_(geometry) {}

  torch::Tensor Forward(const Inputs& inputs) override {
    SoftmaxOptions options;
    options.causal = geometry_.causal();
    options.sequences = inputs.layout.View();
    return SoftmaxAttention(inputs.q, inputs.k, inputs.v, options);
  }

  std::unique_ptr<Stream> NewStream(int64_t batch) override {
    return std::make_unique<SoftmaxStream>(SoftmaxCacheConfig{
        batch, geometry_.kv_heads, geometry_.dim, geometry_.value_dim, DType::kFloat32});
  }

 private:
  Geometry geometry_;
};

}  // namespace

void AddSoftmax(std::vector<Entry>& entries) {
  Entry entry;
  entry.name = "softmax";
  entry.summary = "the vanilla Transformer, O(N^2) time";
  entry.abilities = {.causal = true,
                     .bidirectional = true,
                     .cross = true,
                     .streaming = true,
                     .padding = true,
                     .packing = true};
  entry.rotary = RotaryUse::kBefore;
  entry.make = [](const Geometry& geometry, OptionReader&) {
    return std::make_shared<SoftmaxSystem>(geometry);
  };
  entries.push_back(std::move(entry));
}

}  // namespace cosformer::zoo
