#include "model/model.h"

#include <fmt/format.h>

#include <cmath>

namespace cosformer {
namespace {

using torch::Tensor;

Tensor Rows(const Tensor& hidden) { return hidden.reshape({-1, hidden.size(-1)}); }

}  // namespace

size_t ModelStream::bytes() const {
  size_t sum = 0;
  for (const auto& layer : layers) sum += layer->bytes();
  return sum;
}

ModelImpl::ModelImpl(ModelConfig config) : config_(std::move(config)) {
  Validate(config_);
  const bool has_decoder = config_.kind == ModelKind::kEncoderDecoder;
  const Direction direction =
      config_.kind == ModelKind::kDecoder ? Direction::kCausal : Direction::kBidirectional;
  embeddings_ = register_module("embeddings", Embeddings(config_));
  encoder_ = register_module(config_.kind == ModelKind::kDecoder ? "decoder" : "encoder",
                             Stack(config_, 0, config_.layers, direction, false));
  if (has_decoder) {
    decoder_ = register_module("decoder", Stack(config_, config_.layers, config_.decoder_layers,
                                                Direction::kCausal, true));
  }
  const double deviation = std::sqrt(2.0 / (5.0 * static_cast<double>(config_.width)));
  if (config_.classes > 0) {
    if (config_.kind == ModelKind::kTwoTower) {
      mix_weight_ = register_parameter(
          "mix_weight", torch::randn({config_.width, 4 * config_.width}) * deviation);
      mix_bias_ = register_parameter("mix_bias", torch::zeros({config_.width}));
    }
    classes_weight_ = register_parameter(
        "classes_weight", torch::randn({config_.classes, config_.width}) * deviation);
    classes_bias_ = register_parameter("classes_bias", torch::zeros({config_.classes}));
  } else {
    if (!config_.tied_embeddings) {
      output_weight_ = register_parameter("output_weight",
                                          torch::randn({config_.vocabulary, config_.width}) * 0.02);
    }
    if (config_.bias) {
      output_bias_ = register_parameter("output_bias", torch::zeros({config_.vocabulary}));
    }
  }
}

int64_t ModelImpl::ParameterCount() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

void ModelImpl::Require(bool holds, const char* what) const {
  if (holds) return;
  throw Error(fmt::format("model: this is a model of kind \"{}\"{}; it {}", Name(config_.kind),
                          config_.classes > 0 ? " with classes" : "", what));
}

Tensor ModelImpl::Encode(const Tensor& input, const Layout& layout) {
  return encoder_->forward(embeddings_->forward(input, layout), layout);
}

Tensor ModelImpl::Decode(const Tensor& tokens, const Tensor& memory, const Layout& layout,
                         const Layout& source_layout) {
  Require(!decoder_.is_empty(), "has no decoder beside its encoder");
  Layout cross;
  cross.query_lengths = layout.query_lengths;
  cross.key_lengths = source_layout.query_lengths;
  cross.query_offsets = layout.query_offsets;
  cross.key_offsets = source_layout.query_offsets;
  return decoder_->forward(embeddings_->forward(tokens, layout), layout, memory, cross);
}

Tensor ModelImpl::OutputWeight() const {
  Require(config_.classes == 0, "predicts classes, not tokens");
  Require(config_.vocabulary > 0, "has no vocabulary");
  return config_.tied_embeddings ? embeddings_->tokens() : output_weight_;
}

Tensor ModelImpl::Logits(const Tensor& hidden) {
  return torch::linear(hidden, OutputWeight(), output_bias_);
}

LossResult ModelImpl::Loss(const Tensor& hidden, const Tensor& targets, double smoothing) {
  if (config_.loss == LossKind::kCrossEntropy) return FullCrossEntropy(hidden, targets, smoothing);
  if (smoothing != 0) {
    throw Error("loss: one-vs-each takes no label smoothing; leave it at 0");
  }
  return OneVsEach(Rows(hidden), OutputWeight(), output_bias_, targets, config_.negatives);
}

LossResult ModelImpl::FullCrossEntropy(const Tensor& hidden, const Tensor& targets,
                                       double smoothing) {
  return CrossEntropy(Rows(hidden), OutputWeight(), output_bias_, targets, smoothing);
}

// One row a sequence; a sequence without rows is zeros.
Tensor ModelImpl::Pooled(const Tensor& hidden, const Layout& layout) const {
  const int64_t length = hidden.size(1);
  std::vector<int64_t> begins, counts;
  if (layout.packed()) {
    for (size_t s = 0; s + 1 < layout.query_offsets.size(); ++s) {
      begins.push_back(layout.query_offsets[s]);
      counts.push_back(layout.query_offsets[s + 1] - layout.query_offsets[s]);
    }
  } else {
    for (int64_t b = 0; b < hidden.size(0); ++b) {
      begins.push_back(b * length);
      counts.push_back(!layout.query_lengths.empty() ? layout.query_lengths[static_cast<size_t>(b)]
                                                     : length);
    }
  }
  const Tensor rows = Rows(hidden);
  std::vector<Tensor> pooled;
  for (size_t s = 0; s < begins.size(); ++s) {
    if (counts[s] == 0) {
      pooled.push_back(rows.new_zeros({rows.size(1)}));
      continue;
    }
    switch (config_.pool) {
      case Pool::kMean:
        pooled.push_back(rows.narrow(0, begins[s], counts[s]).mean(0));
        break;
      case Pool::kFirst:
        pooled.push_back(rows.select(0, begins[s]));
        break;
      case Pool::kLast:
        pooled.push_back(rows.select(0, begins[s] + counts[s] - 1));
        break;
    }
  }
  return torch::stack(pooled);
}

Tensor ModelImpl::Classify(const Tensor& input, const Layout& layout) {
  Require(config_.classes > 0 && config_.kind == ModelKind::kEncoder,
          "does not classify one input");
  return torch::linear(Pooled(Encode(input, layout), layout), classes_weight_, classes_bias_);
}

Tensor ModelImpl::Classify(const Tensor& first, const Tensor& second, const Layout& first_layout,
                           const Layout& second_layout) {
  Require(config_.kind == ModelKind::kTwoTower, "does not classify pairs");
  const Tensor a = Pooled(Encode(first, first_layout), first_layout);
  const Tensor b = Pooled(Encode(second, second_layout), second_layout);
  const Tensor mixed =
      torch::relu(torch::linear(torch::cat({a, b, a * b, a - b}, 1), mix_weight_, mix_bias_));
  return torch::linear(mixed, classes_weight_, classes_bias_);
}

ModelStream ModelImpl::NewStream(int64_t batch) {
  Require(config_.kind == ModelKind::kDecoder, "streams from an encoded source, or not at all");
  ModelStream stream;
  stream.layers = encoder_->NewStreams(batch);
  stream.batch = batch;
  return stream;
}

ModelStream ModelImpl::NewStream(const Tensor& memory, const Layout& source_layout) {
  Require(!decoder_.is_empty(), "has no decoder beside its encoder");
  if (source_layout.packed()) {
    throw Error("model: a stream has one source an entry; give them padded, not packed");
  }
  ModelStream stream;
  stream.batch = memory.size(0);
  stream.layers = decoder_->NewStreams(stream.batch);
  stream.memory = memory.detach();
  stream.cross.key_lengths = source_layout.query_lengths;
  return stream;
}

Tensor ModelImpl::Step(const Tensor& tokens, ModelStream& stream) {
  torch::NoGradGuard no_grad;
  if (tokens.dim() != 2 || tokens.size(0) != stream.batch) {
    throw Error(fmt::format("model: the tokens of a step are {}; the stream is a batch of {}",
                            c10::str(tokens.sizes()), stream.batch));
  }
  if (stream.broken) {
    throw Error("model: an earlier step of this stream failed half way; begin another stream");
  }
  const Tensor x = embeddings_->forward(tokens, {}, stream.position);
  stream.broken = true;
  Stack& stack = decoder_.is_empty() ? encoder_ : decoder_;
  const Tensor hidden = stack->Step(x, stream.layers, stream.position, stream.memory, stream.cross);
  stream.position += tokens.size(1);
  stream.broken = false;
  return hidden;
}

}  // namespace cosformer
