#include "model/embeddings.h"

#include <fmt/format.h>

#include <cmath>

#include "model/functions.h"

namespace cosformer {
namespace {

using torch::Tensor;

// GPT-2's; with a normalised last layer, tied logits then start near sqrt(width) * 0.02.
constexpr double kDeviation = 0.02;

// sin and cos of position * 10000^(-2 c / width), as Vaswani et al. have them. In double: positions
// beyond 10^5 would lose their phase in float32.
Tensor Sinusoids(const Tensor& positions, int64_t width) {
  const int64_t half = (width + 1) / 2;
  const Tensor rates = torch::exp(torch::arange(half, torch::kFloat64) *
                                  (-2 * std::log(10000.0) / static_cast<double>(width)));
  const Tensor angles = positions.to(torch::kFloat64).unsqueeze(-1) * rates;
  const Tensor table = torch::stack({angles.sin(), angles.cos()}, -1).flatten(-2);
  return table.narrow(-1, 0, width).to(torch::kFloat32);
}

}  // namespace

EmbeddingsImpl::EmbeddingsImpl(const ModelConfig& config) : config_(config) {
  if (config.input == InputKind::kTokens) {
    tokens_ =
        register_parameter("tokens", torch::randn({config.vocabulary, config.width}) * kDeviation);
  } else {
    const int64_t patch = config.input == InputKind::kPatches ? config.image.patch : 1;
    const int64_t inputs = config.image.channels * patch * patch;
    pixel_weight_ = register_parameter("pixel_weight", torch::randn({config.width, inputs}) /
                                                           std::sqrt(static_cast<double>(inputs)));
    pixel_bias_ = register_parameter("pixel_bias", torch::zeros({config.width}));
  }
  if (config.positions.kind == PositionKind::kLearned) {
    learned_ = register_parameter("positions",
                                  torch::randn({config.max_length, config.width}) * kDeviation);
  }
}

Tensor EmbeddingsImpl::Rows(const Tensor& input) const {
  if (config_.input == InputKind::kTokens) {
    if (input.dim() != 2 || input.scalar_type() != torch::kInt64) {
      throw Error(
          fmt::format("model: the tokens are {} of type {}; they must be [batch, length] of "
                      "type int64",
                      c10::str(input.sizes()), torch::toString(input.scalar_type())));
    }
    if (input.numel() > 0) {
      const int64_t least = input.min().item<int64_t>();
      const int64_t most = input.max().item<int64_t>();
      if (least < 0 || most >= config_.vocabulary) {
        throw Error(fmt::format("model: token {} is not in its vocabulary of {}",
                                least < 0 ? least : most, config_.vocabulary));
      }
    }
    const Tensor rows = torch::embedding(tokens_, input);
    // Sinusoids have amplitude 1: tokens must not drown in them.
    return config_.positions.kind == PositionKind::kSinusoidal
               ? rows * std::sqrt(static_cast<double>(config_.width))
               : rows;
  }
  const ImageConfig& image = config_.image;
  const int64_t numbers = image.height * image.width * image.channels;
  if (input.dim() < 2 || input.numel() != input.size(0) * numbers) {
    throw Error(fmt::format("model: the images are {}; they must be [batch, {}, {}, {}]",
                            c10::str(input.sizes()), image.height, image.width, image.channels));
  }
  Tensor pixels = input.to(torch::kFloat32);
  if (input.scalar_type() == torch::kUInt8) pixels = pixels / 127.5 - 1;
  const int64_t patch = config_.input == InputKind::kPatches ? image.patch : 1;
  pixels = pixels.reshape(
      {input.size(0), image.height / patch, patch, image.width / patch, patch, image.channels});
  pixels =
      pixels.transpose(2, 3).reshape({input.size(0), image.height / patch * (image.width / patch),
                                      patch * patch * image.channels});
  return torch::linear(pixels, pixel_weight_, pixel_bias_);
}

Tensor EmbeddingsImpl::Positions(int64_t length, const Layout& layout, int64_t position) const {
  if (!layout.packed()) return torch::arange(position, position + length, torch::kInt64);
  // Rows outside the sequences are padding, wherever they stand.
  Tensor positions = torch::zeros({length}, torch::kInt64);
  for (size_t s = 0; s + 1 < layout.query_offsets.size(); ++s) {
    const int64_t begin = layout.query_offsets[s];
    const int64_t count = layout.query_offsets[s + 1] - begin;
    if (begin < 0 || count < 0 || begin + count > length) {
      throw Error(
          fmt::format("model: offsets {} to {} of a packed sequence do not lie in its {} rows",
                      begin, begin + count, length));
    }
    positions.narrow(0, begin, count).copy_(torch::arange(count, torch::kInt64));
  }
  return positions;
}

Tensor EmbeddingsImpl::forward(const Tensor& input, const Layout& layout, int64_t position) {
  Tensor rows = Rows(input);
  const PositionKind kind = config_.positions.kind;
  if (kind == PositionKind::kLearned || kind == PositionKind::kSinusoidal) {
    const Tensor positions = Positions(rows.size(1), layout, position);
    const int64_t last = positions.numel() > 0 ? positions.max().item<int64_t>() : -1;
    if (kind == PositionKind::kLearned && last >= config_.max_length) {
      throw Error(
          fmt::format("model: position {} has no learned embedding: max_length is {}; cut "
                      "the text, or train with a larger max_length or other positions",
                      last, config_.max_length));
    }
    rows = rows + (kind == PositionKind::kLearned ? torch::embedding(learned_, positions)
                                                  : Sinusoids(positions, config_.width));
  }
  return is_training() ? DropOut(rows, static_cast<float>(config_.dropout)) : rows;
}

}  // namespace cosformer
