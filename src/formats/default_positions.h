// The positions of a model where nobody chose them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "formats/config.h"

namespace cosformer {

// `causal` language models: none where every layer has a gate, which makes near and far by itself;
// otherwise rotary, from which they learn most and which have no end, where all layers take them.
// What reads whole texts of a known length learns its own. `systems` are those of the layers, or
// one for all.
PositionKind DefaultPositions(bool causal, std::span<const std::string> systems, int64_t head_dim,
                              const std::function<bool(const std::string&)>& takes_rotary);

}  // namespace cosformer
