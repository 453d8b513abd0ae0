#include "formats/default_positions.h"

#include <algorithm>

#include "formats/feature_systems.h"

namespace cosformer {

PositionKind DefaultPositions(bool causal, std::span<const std::string> systems, int64_t head_dim,
                              const std::function<bool(const std::string&)>& takes_rotary) {
  const auto has_gate = [](const std::string& system) {
    const FeatureSystem* feature = FindFeatureSystem(system);
    return feature != nullptr && feature->gate;
  };
  if (!causal) return PositionKind::kLearned;
  if (std::all_of(systems.begin(), systems.end(), has_gate)) return PositionKind::kNone;
  return head_dim % 2 == 0 && std::all_of(systems.begin(), systems.end(), takes_rotary)
             ? PositionKind::kRotary
             : PositionKind::kLearned;
}

}  // namespace cosformer
