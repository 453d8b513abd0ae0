// Linear attention over a feature map that acts on each element: what cosFormer, its ablations and
// the Linear Transformer are, with different kernels.
#pragma once

#include "formats/feature_systems.h"
#include "zoo/system.h"

namespace cosformer::zoo {

class FeatureAttention final : public System {
 public:
  FeatureAttention(const Geometry& geometry, const FeatureOptions& options);

  torch::Tensor Forward(const Inputs& inputs) override;
  std::unique_ptr<Stream> NewStream(int64_t batch) override;

 private:
  Geometry geometry_;
  FeatureOptions options_;
  torch::Tensor gain_;  // [heads, value_dim], with norm
};

// Of all systems made of it.
inline constexpr Abilities kFeatureAbilities = {.causal = true,
                                                .bidirectional = true,
                                                .cross = true,
                                                .streaming = true,
                                                .padding = true,
                                                .packing = true};

// Linear attention over features whose streams remember a LinearState, for the systems that compute
// features of their own. Takes q and k as the kernel's feature map expects them.
class LinearStream {
 public:
  LinearStream(const Geometry& geometry, const LinearKernel& kernel, bool endless, int64_t batch);
  torch::Tensor Step(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v);
  int64_t position() const { return state_.position(); }
  size_t bytes() const { return state_.bytes(); }

 private:
  LinearState state_;
};

}  // namespace cosformer::zoo
