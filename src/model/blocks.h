// A transformer's layers: attention, cross attention where there is a memory, and the feed-forward
// network, each with its normalisation and residual; and a stack of them.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "cosformer/torch.h"
#include "formats/config.h"
#include "model/functions.h"

namespace cosformer {

// LayerNorm or RMSNorm of a residual sum.
class NormImpl : public torch::nn::Module {
 public:
  NormImpl(const ModelConfig& config);  // NOLINT(google-explicit-constructor)
  // s = x + Dropout(r) (r may be undefined), and its normalisation. Drops only while training.
  SumAndNorm forward(const torch::Tensor& x, const torch::Tensor& r);

 private:
  NormKind kind_;
  float epsilon_, dropout_;
  torch::Tensor weight_, bias_;
};
TORCH_MODULE(Norm);

class FeedForwardImpl : public torch::nn::Module {
 public:
  explicit FeedForwardImpl(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  Activation activation_;
  torch::Tensor in_weight_, in_bias_, out_weight_, out_bias_;
};
TORCH_MODULE(FeedForward);

// What flows between layers: the residual stream, and the branch that is still to be added to it,
// which the next normalisation does in passing. Post-norm layers leave no branch.
struct Flow {
  torch::Tensor x;
  torch::Tensor branch;  // may be undefined
};

class LayerImpl : public torch::nn::Module {
 public:
  LayerImpl(const ModelConfig& config, const SystemConfig& system, Direction direction,
            bool with_memory);

  // memory: undefined unless the layer was made with one.
  Flow forward(const Flow& flow, const Layout& layout, const torch::Tensor& memory,
               const Layout& cross);
  // The next rows of a text, after `position` others.
  Flow Step(const Flow& flow, AttentionStream& stream, const torch::Tensor& memory,
            const Layout& cross, int64_t position);
  std::unique_ptr<AttentionStream> NewStream(int64_t batch) { return attention_->NewStream(batch); }

 private:
  // One sublayer: normalise, compute, hand on.
  template <class Compute>
  void Sublayer(Norm& norm, Flow& flow, const Compute& compute);
  template <class Attend>
  Flow Run(Flow flow, const Attend& attend, const torch::Tensor& memory, const Layout& cross,
           int64_t position);

  NormPlace place_;
  Norm attention_norm_{nullptr}, cross_norm_{nullptr}, feed_forward_norm_{nullptr};
  Attention attention_{nullptr}, cross_{nullptr};
  FeedForward feed_forward_{nullptr};
};
TORCH_MODULE(Layer);

class StackImpl : public torch::nn::Module {
 public:
  // Layers `first` to first + count - 1 of config.attention.
  StackImpl(const ModelConfig& config, int64_t first, int64_t count, Direction direction,
            bool with_memory);

  // x [batch, length, width] -> the same, normalised.
  torch::Tensor forward(const torch::Tensor& x, const Layout& layout = {},
                        const torch::Tensor& memory = {}, const Layout& cross = {});

  using Streams = std::vector<std::unique_ptr<AttentionStream>>;  // one a layer
  Streams NewStreams(int64_t batch);
  torch::Tensor Step(const torch::Tensor& x, Streams& streams, int64_t position,
                     const torch::Tensor& memory = {}, const Layout& cross = {});

 private:
  torch::Tensor Finish(const Flow& flow);

  bool checkpointing_;
  std::vector<Layer> layers_;
  Norm norm_{nullptr};  // pre-norm: of the last sum
};
TORCH_MODULE(Stack);

}  // namespace cosformer
