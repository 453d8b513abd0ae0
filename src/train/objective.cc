#include "train/objective.h"

#include <algorithm>

namespace cosformer {
namespace {

using data::Objective;
using torch::Tensor;

// The numbers stay the batch's, which outlives the step.
Tensor TokensOf(const std::vector<int64_t>& numbers, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<int64_t*>(numbers.data()), shape, torch::kInt64);
}

Tensor InputOf(const ModelConfig& config, const data::Side& side) {
  const Tensor tokens = TokensOf(side.tokens, {side.rows, side.length});
  return config.input == InputKind::kTokens ? tokens : tokens.to(torch::kUInt8);
}

Layout LayoutOf(const data::Side& side) {
  if (!side.offsets.empty()) return Layout::Packed(side.offsets);
  if (!side.lengths.empty()) return Layout::Padded(side.lengths);
  return {};
}

template <class TokenLoss>
LossResult Loss(ModelImpl& model, const data::Batch& batch, Objective objective, double smoothing,
                const TokenLoss& token_loss) {
  const Tensor input = InputOf(model.config(), batch.input);
  const Tensor targets = TokensOf(batch.targets, {static_cast<int64_t>(batch.targets.size())});
  switch (objective) {
    case Objective::kCausal:
    case Objective::kMasked:
      return token_loss(model.Encode(input, LayoutOf(batch.input)), targets);
    case Objective::kClassify:
      return CrossEntropyOfLogits(model.Classify(input, LayoutOf(batch.input)), targets, smoothing);
    case Objective::kRetrieve:
      return CrossEntropyOfLogits(model.Classify(input, InputOf(model.config(), batch.second),
                                                 LayoutOf(batch.input), LayoutOf(batch.second)),
                                  targets, smoothing);
    case Objective::kTranslate:
      break;
  }
  const Layout source = LayoutOf(batch.input);
  const Tensor memory = model.Encode(input, source);
  return token_loss(
      model.Decode(InputOf(model.config(), batch.second), memory, LayoutOf(batch.second), source),
      targets);
}

}  // namespace

ModelKind KindFor(Objective objective) {
  switch (objective) {
    case Objective::kCausal:
      return ModelKind::kDecoder;
    case Objective::kRetrieve:
      return ModelKind::kTwoTower;
    case Objective::kTranslate:
      return ModelKind::kEncoderDecoder;
    default:
      return ModelKind::kEncoder;
  }
}

LossResult TrainingLoss(ModelImpl& model, const data::Batch& batch, Objective objective,
                        double smoothing) {
  return Loss(model, batch, objective, smoothing, [&](const Tensor& hidden, const Tensor& targets) {
    return model.Loss(hidden, targets, smoothing);
  });
}

LossResult EvaluationLoss(ModelImpl& model, const data::Batch& batch, Objective objective) {
  torch::NoGradGuard no_grad;
  return Loss(model, batch, objective, 0, [&](const Tensor& hidden, const Tensor& targets) {
    return model.FullCrossEntropy(hidden, targets);
  });
}

std::vector<LossResult> EvaluationLosses(ModelImpl& model, const data::Batch& batch,
                                         std::span<const TargetRun> runs) {
  torch::NoGradGuard no_grad;
  const Tensor hidden = model.Encode(InputOf(model.config(), batch.input), LayoutOf(batch.input))
                            .reshape({-1, model.config().width});
  const Tensor targets = TokensOf(batch.targets, {hidden.size(0)});
  std::vector<LossResult> losses;
  for (const TargetRun& run : runs) {
    losses.push_back(model.FullCrossEntropy(hidden.narrow(0, run.begin, run.count),
                                            targets.narrow(0, run.begin, run.count)));
  }
  return losses;
}

bool CanPack(const ModelConfig& config) {
  const std::vector<SystemDescription> systems = AttentionSystems();
  const auto packs = [&](const SystemConfig& layer) {
    return std::any_of(systems.begin(), systems.end(), [&](const SystemDescription& system) {
      return system.name == layer.system && system.abilities.packing;
    });
  };
  const bool cross = config.kind != ModelKind::kEncoderDecoder || packs(config.cross_attention);
  // An image is always whole, and its model takes it as such.
  return config.input == InputKind::kTokens && cross &&
         std::all_of(config.attention.begin(), config.attention.end(), packs);
}

}  // namespace cosformer
