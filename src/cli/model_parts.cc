#include "cli/model_parts.h"

namespace cosformer::cli {

std::string_view Name(ModelPart part) {
  switch (part) {
    case ModelPart::kEmbedding:
      return "embedding";
    case ModelPart::kAttention:
      return "attention";
    case ModelPart::kFeedForward:
      return "feed-forward";
    case ModelPart::kOutput:
      return "output";
  }
  return "";
}

ModelPart PartOf(std::string_view tensor) {
  constexpr std::string_view kLayers = ".layers.";
  if (tensor.starts_with("embeddings.")) return ModelPart::kEmbedding;
  const size_t layers = tensor.find(kLayers);
  if (layers == std::string_view::npos) return ModelPart::kOutput;
  // Behind the layer's number: "feed_forward", "feed_forward_norm", or one of the attentions.
  tensor.remove_prefix(layers + kLayers.size());
  tensor.remove_prefix(tensor.find('.') == std::string_view::npos ? 0 : tensor.find('.') + 1);
  return tensor.starts_with("feed_forward") ? ModelPart::kFeedForward : ModelPart::kAttention;
}

}  // namespace cosformer::cli
