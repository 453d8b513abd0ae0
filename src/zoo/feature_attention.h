// Linear attention over a feature map that acts on each element: what cosFormer, its ablations and
// the Linear Transformer are, with different kernels.
#pragma once

#include "zoo/system.h"

namespace cosformer::zoo {

struct FeatureOptions {
  LinearKernel kernel;
  // In place of the division by the sum of the weights, the outputs of each head are brought to
  // unit root mean square and multiplied by a learned gain (arXiv 2210.10340): its gradients are
  // bounded.
  bool norm = false;
  bool endless = false;  // a stream goes on past the horizon (see LinearStateConfig)
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
};

// Of all systems made of it.
inline constexpr Abilities kFeatureAbilities = {.causal = true,
                                                .bidirectional = true,
                                                .cross = true,
                                                .streaming = true,
                                                .padding = true,
                                                .packing = true};

// The entry of such a system; `read` turns its options into a kernel.
Entry FeatureEntry(std::string name, std::string summary,
                   std::function<FeatureOptions(const Geometry&, OptionReader&)> read);

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
