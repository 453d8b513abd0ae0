// The parts of a model, as its parameters are shared out among them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cosformer::cli {

enum class ModelPart : uint8_t { kEmbedding, kAttention, kFeedForward, kOutput };
inline constexpr std::array kModelParts = {ModelPart::kEmbedding, ModelPart::kAttention,
                                           ModelPart::kFeedForward, ModelPart::kOutput};
std::string_view Name(ModelPart part);  // "embedding", "attention", "feed-forward", "output"

// By the name that a tensor has in model.safetensors. Norms belong to what they come before; the
// last one, and whatever makes classes, to the output.
ModelPart PartOf(std::string_view tensor);

}  // namespace cosformer::cli
