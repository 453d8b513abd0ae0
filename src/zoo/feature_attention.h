// Linear attention over a feature map that acts on each element: what cosFormer, its ablations and
// the Linear Transformer are, with different kernels.
#pragma once

#include "formats/feature_systems.h"
#include "zoo/system.h"

namespace cosformer::zoo {

// What a token keeps of those before it: the sigmoid of a product with the token itself. Without
// tensors, everything.
struct Gate {
  // With parameters gate_weight and gate_bias of `system`.
  static Gate Of(torch::nn::Module& system, const Geometry& geometry, double bias);

  bool defined() const { return weight.defined(); }
  torch::Tensor Logits(const torch::Tensor& x) const;  // [batch, n, width] -> [batch, n, kv_heads]
  // As LinearAttention takes it; undefined without tensors.
  torch::Tensor LogKeep(const torch::Tensor& x) const;

  torch::Tensor weight;  // [kv_heads, width]
  torch::Tensor bias;    // [kv_heads]
};

class FeatureAttention final : public System {
 public:
  FeatureAttention(const Geometry& geometry, const FeatureOptions& options);

  torch::Tensor Forward(const Inputs& inputs) override;
  std::unique_ptr<Stream> NewStream(int64_t batch) override;

 private:
  Geometry geometry_;
  FeatureOptions options_;
  torch::Tensor gain_;  // [heads, value_dim], with norm
  Gate gate_;
};

// Of all systems made of it.
inline constexpr Abilities kFeatureAbilities = {.causal = true,
                                                .bidirectional = true,
                                                .cross = true,
                                                .streaming = true,
                                                .padding = true,
                                                .packing = true};
inline constexpr Abilities kGatedAbilities = {
    .causal = true, .streaming = true, .padding = true, .packing = true};

// Linear attention over features whose streams remember a LinearState, for the systems that compute
// features of their own. Takes q and k as the kernel's feature map expects them.
class LinearStream {
 public:
  LinearStream(const Geometry& geometry, const LinearKernel& kernel, bool endless, bool forgets,
               int64_t batch);
  // log_keep, as LinearAttention takes it, where it forgets.
  torch::Tensor Step(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const torch::Tensor& log_keep = {});
  int64_t position() const { return state_.position(); }
  size_t bytes() const { return state_.bytes(); }

 private:
  LinearState state_;
};

}  // namespace cosformer::zoo
