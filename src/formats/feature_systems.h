// The attention systems that are linear attention over a feature map of single elements: cosFormer,
// the ablations of its paper, the Linear Transformer. Which there are, and what their options in
// config.json mean: known to training and to the runtime alike.
#pragma once

#include <span>
#include <string_view>

#include "cosformer/attention.h"
#include "formats/option_reader.h"

namespace cosformer {

struct FeatureSystem {
  std::string_view name;
  std::string_view summary;
  FeatureMap map;
  Reweighting reweighting;
  // Every token keeps g = sigmoid(w . x + b) of what was before it, a number for each head of keys
  // and values. Causal.
  bool gate = false;
};

// A gate of sigmoid(3) forgets with a time of 21 tokens. At 0, a time of 2, gradients would reach
// no further for a model to learn to remember.
inline constexpr double kGateBias = 3;

struct FeatureOptions {
  LinearKernel kernel;
  // In place of the division by the sum of the weights, the outputs of each head are brought to
  // unit root mean square and multiplied by a learned gain (arXiv 2210.10340): its gradients are
  // bounded.
  bool norm = false;
  bool endless = false;  // a stream goes on past the horizon (see LinearStateConfig)
  bool gate = false;
  double gate_bias = kGateBias;  // b, when training begins
};

std::span<const FeatureSystem> FeatureSystems();
// Null when there is none of that name.
const FeatureSystem* FindFeatureSystem(std::string_view name);

// Options: "horizon" M in tokens (default: max_length), "normaliser" "sum" or "norm", "epsilon" the
// least normaliser, "slope" of LeakyReLU below zero, "endless" streams, "gate_bias"; each where the
// system has a use for it.
FeatureOptions ReadFeatureOptions(const FeatureSystem& system, int64_t max_length,
                                  OptionReader& options);

// Of the outputs of a head that are brought to unit root mean square: added to the mean square.
inline constexpr float kHeadNormEpsilon = 1e-6f;

}  // namespace cosformer
