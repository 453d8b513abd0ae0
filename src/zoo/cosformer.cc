// cosFormer, and the ablations of its paper: other feature maps, and each without the cosine.
//
// Options: "horizon" M in tokens (default: the longest sequence of the config), "normaliser" "sum"
// or "norm" (see FeatureOptions), "epsilon" the least normaliser, "slope" of LeakyReLU below zero,
// "endless" streams.
#include "zoo/feature_attention.h"

namespace cosformer::zoo {
namespace {

constexpr int64_t kMaxHorizon = int64_t{1} << 40;

struct Variant {
  const char* name;
  const char* summary;
  FeatureMap map;
  Reweighting reweighting;
};

constexpr Variant kVariants[] = {
    {"cosformer", "ReLU features, cosine re-weighting, O(N)", FeatureMap::kRelu, Reweighting::kCos},
    {"cosformer-leaky-relu", "cosFormer with LeakyReLU features", FeatureMap::kLeakyRelu,
     Reweighting::kCos},
    {"cosformer-identity", "cosFormer with q and k as they are", FeatureMap::kIdentity,
     Reweighting::kCos},
    {"relu", "ReLU features, no re-weighting", FeatureMap::kRelu, Reweighting::kNone},
    {"leaky-relu", "LeakyReLU features, no re-weighting", FeatureMap::kLeakyRelu,
     Reweighting::kNone},
    {"identity", "q and k as they are, no re-weighting", FeatureMap::kIdentity, Reweighting::kNone},
};

FeatureOptions Read(const Variant& variant, const Geometry& geometry, OptionReader& options) {
  FeatureOptions result;
  LinearKernel& kernel = result.kernel;
  kernel.feature_map = variant.map;
  kernel.reweighting = variant.reweighting;
  kernel.epsilon = static_cast<float>(options.Number("epsilon", 1e-6, 1e-30, 1));
  if (variant.map == FeatureMap::kLeakyRelu) {
    kernel.leaky_slope = static_cast<float>(options.Number("slope", 0.01, -1, 1));
  }
  if (variant.reweighting == Reweighting::kCos) {
    kernel.horizon = options.Integer("horizon", geometry.max_length, 1, kMaxHorizon);
    result.endless = options.Flag("endless", false);
  }
  result.norm = options.Choice("normaliser", "sum", {"sum", "norm"}) == "norm";
  return result;
}

}  // namespace

void AddCosformer(std::vector<Entry>& entries) {
  for (const Variant& variant : kVariants) {
    entries.push_back(FeatureEntry(variant.name, variant.summary,
                                   [&variant](const Geometry& geometry, OptionReader& options) {
                                     return Read(variant, geometry, options);
                                   }));
  }
}

}  // namespace cosformer::zoo
