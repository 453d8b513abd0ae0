#include "model/blocks.h"

#include <torch/nn/modules/container/modulelist.h>

#include <cmath>

#include "model/checkpoint.h"

namespace cosformer {
namespace {

using torch::Tensor;

AttentionConfig AttentionOf(const ModelConfig& config, const SystemConfig& system,
                            Direction direction) {
  AttentionConfig attention;
  attention.system = system.system;
  attention.options = system.options.dump();
  attention.direction = direction;
  attention.width = config.width;
  attention.heads = config.heads;
  attention.kv_heads = config.kv_heads;
  attention.head_dim = config.head_dim;
  attention.max_length = config.max_length;
  attention.bias = config.bias;
  // Distances between a text and another have no meaning of their own.
  if (direction == Direction::kCross) return attention;
  const PositionConfig& positions = config.positions;
  switch (positions.kind) {
    case PositionKind::kRotary:
      attention.position_options = nlohmann::json{{"base", positions.rotary_base}}.dump();
      break;
    case PositionKind::kSpeSine:
      attention.position_options = nlohmann::json{
          {"realisations", positions.realisations},
          {"gated", positions.gated},
          {"sines", positions.sines}}.dump();
      break;
    case PositionKind::kSpeConv:
      attention.position_options = nlohmann::json{
          {"realisations", positions.realisations},
          {"gated", positions.gated},
          {"kernel", positions.kernel}}.dump();
      break;
    case PositionKind::kNone:
    case PositionKind::kLearned:
    case PositionKind::kSinusoidal:
      return attention;
  }
  attention.positions = std::string(Name(positions.kind));
  return attention;
}

// Every branch adds to the residual stream: smaller by the root of their number, its variance at
// the last layer is that of a shallow model (GPT-2).
void ScaleBranch(torch::nn::Module& module, int64_t branches) {
  torch::NoGradGuard no_grad;
  for (auto& item : module.named_parameters(/*recurse=*/false)) {
    if (item.key() == "out_weight") item.value().mul_(1 / std::sqrt(static_cast<double>(branches)));
  }
}

}  // namespace

NormImpl::NormImpl(const ModelConfig& config)
    : kind_(config.norm),
      epsilon_(static_cast<float>(config.norm_epsilon)),
      dropout_(static_cast<float>(config.dropout)) {
  weight_ = register_parameter("weight", torch::ones({config.width}));
  if (kind_ == NormKind::kLayerNorm && config.bias) {
    bias_ = register_parameter("bias", torch::zeros({config.width}));
  }
}

SumAndNorm NormImpl::forward(const Tensor& x, const Tensor& r) {
  return AddAndNormalise(x, r, weight_, bias_, kind_, epsilon_, is_training() ? dropout_ : 0);
}

FeedForwardImpl::FeedForwardImpl(const ModelConfig& config) : activation_(config.activation) {
  const int64_t inner = PreWidth(activation_, config.hidden);
  const double in = std::sqrt(2.0 / (5.0 * static_cast<double>(config.width)));
  in_weight_ = register_parameter("in_weight", torch::randn({inner, config.width}) * in);
  out_weight_ = register_parameter("out_weight", torch::randn({config.width, config.hidden}) * in);
  if (config.bias) {
    in_bias_ = register_parameter("in_bias", torch::zeros({inner}));
    out_bias_ = register_parameter("out_bias", torch::zeros({config.width}));
  }
}

Tensor FeedForwardImpl::forward(const Tensor& x) {
  // The bias goes with the activation: one pass over [tokens, hidden] less.
  const Tensor pre = torch::linear(x, in_weight_);
  return torch::linear(Activate(activation_, pre, in_bias_), out_weight_, out_bias_);
}

LayerImpl::LayerImpl(const ModelConfig& config, const SystemConfig& system, Direction direction,
                     bool with_memory)
    : place_(config.norm_place) {
  attention_norm_ = register_module("attention_norm", Norm(config));
  attention_ = register_module("attention", Attention(AttentionOf(config, system, direction)));
  if (with_memory) {
    cross_norm_ = register_module("cross_norm", Norm(config));
    cross_ = register_module(
        "cross", Attention(AttentionOf(config, config.cross_attention, Direction::kCross)));
  }
  feed_forward_norm_ = register_module("feed_forward_norm", Norm(config));
  feed_forward_ = register_module("feed_forward", FeedForward(config));
  const int64_t branches = (with_memory ? 3 : 2) * config.AttentionLayers();
  ScaleBranch(*attention_, branches);
  if (with_memory) ScaleBranch(*cross_, branches);
  ScaleBranch(*feed_forward_, branches);
}

template <class Compute>
void LayerImpl::Sublayer(Norm& norm, Flow& flow, const Compute& compute) {
  if (place_ == NormPlace::kPre) {
    const SumAndNorm sum = norm->forward(flow.x, flow.branch);
    flow = {sum.sum, compute(sum.norm)};
  } else {
    flow = {norm->forward(flow.x, compute(flow.x)).norm, {}};
  }
}

template <class Attend>
Flow LayerImpl::Run(Flow flow, const Attend& attend, const Tensor& memory, const Layout& cross,
                    int64_t position) {
  Sublayer(attention_norm_, flow, attend);
  if (!cross_.is_empty()) {
    Sublayer(cross_norm_, flow,
             [&](const Tensor& x) { return cross_->forward(x, memory, cross, position); });
  }
  Sublayer(feed_forward_norm_, flow, [&](const Tensor& x) { return feed_forward_->forward(x); });
  return flow;
}

Flow LayerImpl::forward(const Flow& flow, const Layout& layout, const Tensor& memory,
                        const Layout& cross) {
  return Run(
      flow, [&](const Tensor& x) { return attention_->forward(x, layout); }, memory, cross, 0);
}

Flow LayerImpl::Step(const Flow& flow, AttentionStream& stream, const Tensor& memory,
                     const Layout& cross, int64_t position) {
  return Run(
      flow, [&](const Tensor& x) { return attention_->Step(x, stream); }, memory, cross, position);
}

StackImpl::StackImpl(const ModelConfig& config, int64_t first, int64_t count, Direction direction,
                     bool with_memory)
    : checkpointing_(config.checkpointing) {
  torch::nn::ModuleList list = register_module("layers", torch::nn::ModuleList());
  for (int64_t i = 0; i < count; ++i) {
    const SystemConfig& system = config.attention[static_cast<size_t>(first + i)];
    layers_.emplace_back(Layer(config, system, direction, with_memory));
    list->push_back(layers_.back());
  }
  if (config.norm_place == NormPlace::kPre) norm_ = register_module("norm", Norm(config));
}

Tensor StackImpl::Finish(const Flow& flow) {
  return norm_.is_empty() ? flow.x : norm_->forward(flow.x, flow.branch).norm;
}

Tensor StackImpl::forward(const Tensor& x, const Layout& layout, const Tensor& memory,
                          const Layout& cross) {
  Flow flow{x, {}};
  for (Layer& layer : layers_) {
    if (!checkpointing_ || !is_training()) {
      flow = layer->forward(flow, layout, memory, cross);
      continue;
    }
    const TensorList outputs =
        Checkpointed(*layer,
                     [layer, layout, cross](const TensorList& in) mutable -> TensorList {
                       const Flow out = layer->forward({in[0], in[1]}, layout, in[2], cross);
                       if (!out.branch.defined()) return {out.x};
                       return {out.x, out.branch};
                     },
                     {flow.x, flow.branch, memory});
    flow = {outputs[0], outputs.size() > 1 ? outputs[1] : Tensor()};
  }
  return Finish(flow);
}

StackImpl::Streams StackImpl::NewStreams(int64_t batch) {
  Streams streams;
  for (Layer& layer : layers_) streams.push_back(layer->NewStream(batch));
  return streams;
}

Tensor StackImpl::Step(const Tensor& x, Streams& streams, int64_t position, const Tensor& memory,
                       const Layout& cross) {
  Flow flow{x, {}};
  for (size_t i = 0; i < layers_.size(); ++i) {
    flow = layers_[i]->Step(flow, *streams[i], memory, cross, position);
  }
  return Finish(flow);
}

}  // namespace cosformer
