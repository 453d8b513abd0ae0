// The Linear Transformer (Katharopoulos et al., 2020): features 1 + elu. Option: "epsilon", the
// least normaliser.
#include "zoo/feature_attention.h"

namespace cosformer::zoo {

void AddLinearTransformer(std::vector<Entry>& entries) {
  entries.push_back(FeatureEntry("linear", "the Linear Transformer, 1 + elu features, O(N)",
                                 [](const Geometry&, OptionReader& options) {
                                   FeatureOptions result;
                                   result.kernel.feature_map = FeatureMap::kEluPlusOne;
                                   result.kernel.reweighting = Reweighting::kNone;
                                   result.kernel.epsilon = static_cast<float>(
                                       options.Number("epsilon", 1e-6, 1e-30, 1));
                                   return result;
                                 }));
}

}  // namespace cosformer::zoo
