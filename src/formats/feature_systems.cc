#include "formats/feature_systems.h"

#include <algorithm>

namespace cosformer {
namespace {

constexpr int64_t kMaxHorizon = int64_t{1} << 40;

constexpr FeatureSystem kSystems[] = {
    {"cosformer", "ReLU features, cosine re-weighting, O(N)", FeatureMap::kRelu, Reweighting::kCos},
    {"cosformer-leaky-relu", "cosFormer with LeakyReLU features", FeatureMap::kLeakyRelu,
     Reweighting::kCos},
    {"cosformer-identity", "cosFormer with q and k as they are", FeatureMap::kIdentity,
     Reweighting::kCos},
    {"relu", "ReLU features, no re-weighting", FeatureMap::kRelu, Reweighting::kNone},
    {"leaky-relu", "LeakyReLU features, no re-weighting", FeatureMap::kLeakyRelu,
     Reweighting::kNone},
    {"identity", "q and k as they are, no re-weighting", FeatureMap::kIdentity, Reweighting::kNone},
    // Katharopoulos et al., 2020.
    {"linear", "the Linear Transformer, 1 + elu features, O(N)", FeatureMap::kEluPlusOne,
     Reweighting::kNone},
    {"cosformer-gate", "cosFormer with a learned gate that forgets, causal, O(N)",
     FeatureMap::kRelu, Reweighting::kCos, true},
    {"linear-gate", "the Linear Transformer with a learned gate that forgets, causal, O(N)",
     FeatureMap::kEluPlusOne, Reweighting::kNone, true},
};

}  // namespace

std::span<const FeatureSystem> FeatureSystems() { return kSystems; }

const FeatureSystem* FindFeatureSystem(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kSystems), std::end(kSystems),
                   [&](const FeatureSystem& system) { return system.name == name; });
  return found == std::end(kSystems) ? nullptr : found;
}

FeatureOptions ReadFeatureOptions(const FeatureSystem& system, int64_t max_length,
                                  OptionReader& options) {
  FeatureOptions result;
  LinearKernel& kernel = result.kernel;
  kernel.feature_map = system.map;
  kernel.reweighting = system.reweighting;
  kernel.epsilon = static_cast<float>(options.Number("epsilon", 1e-6, 1e-30, 1));
  if (system.map == FeatureMap::kLeakyRelu) {
    kernel.leaky_slope = static_cast<float>(options.Number("slope", 0.01, -1, 1));
  }
  if (system.reweighting == Reweighting::kCos) {
    kernel.horizon = options.Integer("horizon", max_length, 1, kMaxHorizon);
    result.endless = options.Flag("endless", false);
  }
  if (system.map != FeatureMap::kEluPlusOne) {
    result.norm = options.Choice("normaliser", "sum", {"sum", "norm"}) == "norm";
  }
  result.gate = system.gate;
  if (system.gate) result.gate_bias = options.Number("gate_bias", kGateBias, -20, 20);
  return result;
}

}  // namespace cosformer
